//! Common parts of Gemini and Aries interconnects: routers by coordinate, pairs of wired tiles.

use crate::text::{Line, Text};
use hopbyte_fabric::InputError;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Tile numbers of a router: up to 8 rows of 8 columns.
const TILES: u32 = 64;
/// Maximum number of routers: several times the largest machine that the numbering allows.
const MAX_ROUTERS: u32 = 1 << 20;
/// Stands for "not listed".
const NONE: u32 = u32::MAX;

/// Position of a tile: router by order of first mention, and tile number 8·row + column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Router.
    pub router: u32,
    /// Tile.
    pub tile: u16,
}

impl Tile {
    fn key(self) -> u32 {
        self.router * TILES + u32::from(self.tile)
    }
}

/// One line: a tile and the tile it is wired to.
#[derive(Clone, Copy, Debug)]
pub struct Joint {
    /// Sending tile.
    pub from: Tile,
    /// Receiving tile.
    pub to: Tile,
    /// Direction (Gemini) or colour (Aries).
    pub way: u8,
    /// Carrier of the connection (Gemini).
    pub carrier: u8,
    /// Line of the dump.
    pub line: u32,
}

/// Routers and joints of an interconnect while it is read.
pub struct Tiles<'a> {
    text: &'a Text,
    by_coord: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    /// The last sending tile's word, its length without coordinate, and its router.
    last: (&'a [u8], usize, u32),
    /// Name and coordinate by router.
    pub routers: Vec<(&'a [u8], [u16; 3])>,
    /// All wired tiles in the order of the dump.
    pub joints: Vec<Joint>,
}

impl<'a> Tiles<'a> {
    /// Nothing read yet.
    pub fn new(text: &'a Text) -> Self {
        Self {
            text,
            by_coord: HashMap::default(),
            last: (b"", 0, 0),
            routers: Vec::new(),
            // A line has about 75 bytes on Gemini, 49 on Aries.
            joints: Vec::with_capacity(text.bytes().len() / 70),
        }
    }

    /// Reads the sending tile of a line; lines of one router are consecutive.
    #[inline]
    pub fn source(
        &mut self,
        line: Line<'a>,
        word: &'a [u8],
        syntax: &Syntax,
    ) -> Result<Tile, InputError> {
        let (last, end, router) = self.last;
        if word.len() == last.len() && end > 0 && word[end..] == last[end..] {
            let (name, tile) = word[..end].split_at(end - 3);
            if let (Some(tile), true) = (tile_number(tile), *name == last[..end - 3]) {
                return Ok(Tile { router, tile });
            }
        }
        let tile = self.tile(line, word, syntax)?;
        let end = self.routers[tile.router as usize].0.len() + 3;
        self.last = (word, end, tile.router);
        Ok(tile)
    }

    /// Reads a tile with its coordinate, such as `c0-0c0s0g0l32[(0,0,1)]`.
    #[inline]
    pub fn tile(
        &mut self,
        line: Line<'a>,
        word: &'a [u8],
        syntax: &Syntax,
    ) -> Result<Tile, InputError> {
        let Some((name, tile, coord)) = syntax.parse(word) else {
            return Err(self.text.error_in(line, word, syntax.expected));
        };
        let key = u64::from(coord[0]) << 32 | u64::from(coord[1]) << 16 | u64::from(coord[2]);
        let next = self.routers.len() as u32;
        let router = *self.by_coord.entry(key).or_insert(next);
        if router == next {
            if next == MAX_ROUTERS {
                let found = format!("more than {MAX_ROUTERS} routers");
                return Err(self.text.error(found, "a machine that can be built"));
            }
            if name.is_empty() || name.len() > 64 || !name.iter().all(u8::is_ascii_graphic) {
                return Err(self.text.error_in(line, word, syntax.expected));
            }
            self.routers.push((name, coord));
        } else if self.routers[router as usize].0 != name {
            let known = crate::text::excerpt(self.routers[router as usize].0);
            let expected = format!("{known}, which has these coordinates on an earlier line");
            return Err(self.text.error_in(line, word, expected));
        }
        Ok(Tile { router, tile })
    }

    /// Checks that no tile is listed twice and that wiring is mutual; returns the tiles with a missing far end.
    pub fn check(&self) -> Result<Vec<String>, InputError> {
        let mut far = vec![NONE; self.routers.len() * TILES as usize];
        let wrong = |joint: &Joint, found: String, expected: &str| {
            self.text.error(found, expected).at(u64::from(joint.line))
        };
        for joint in &self.joints {
            let slot = &mut far[joint.from.key() as usize];
            if *slot != NONE {
                return Err(wrong(joint, self.name(joint.from), "every tile once")
                    .hint("are two dumps in one file?"));
            }
            *slot = joint.to.key();
        }
        let mut one_way = Vec::new();
        for joint in &self.joints {
            let back = far[joint.to.key() as usize];
            if back == joint.from.key() {
                continue;
            }
            let pair = format!("{} -> {}", self.name(joint.from), self.name(joint.to));
            if back != NONE {
                return Err(wrong(
                    joint,
                    pair,
                    "wiring that the far tile's line confirms",
                ));
            }
            one_way.push(pair);
        }
        Ok(one_way)
    }

    /// Name of a tile, as in the dump.
    fn name(&self, tile: Tile) -> String {
        let router = crate::text::lossy(self.routers[tile.router as usize].0);
        format!("{router}l{:02o}", tile.tile)
    }

    /// Extent of each coordinate, if the routers fill a plausible share of that grid.
    pub fn extent(&self) -> Result<[u32; 3], InputError> {
        let mut dims = [1u32; 3];
        for (_, coord) in &self.routers {
            for (dim, &c) in dims.iter_mut().zip(coord) {
                *dim = (*dim).max(u32::from(c) + 1);
            }
        }
        if !fills(dims, self.routers.len()) {
            let found = format!("{} routers on a grid of {dims:?}", self.routers.len());
            return Err(self.text.error(found, "a machine that fills its grid"));
        }
        Ok(dims)
    }

    /// Routers in the order of their coordinates: position → router, and router → position.
    pub fn by_coordinate(&self) -> (Vec<u32>, Vec<u32>) {
        let mut order: Vec<u32> = (0..self.routers.len() as u32).collect();
        order.sort_unstable_by_key(|&r| self.routers[r as usize].1);
        let mut position = vec![0; order.len()];
        for (i, &r) in order.iter().enumerate() {
            position[r as usize] = i as u32;
        }
        (order, position)
    }
}

/// Whether the number of routers or nodes is plausible for the grid; a table of all its positions is allocated.
pub fn fills(dims: [u32; 3], count: usize) -> bool {
    let positions: u128 = dims.iter().map(|&d| u128::from(d)).product();
    positions <= 64 * count as u128 + 4096
}

/// Syntax of a tile with its coordinate in a dump.
pub struct Syntax {
    /// Between name and coordinate.
    pub open: &'static [u8],
    /// Between coordinates.
    pub comma: u8,
    /// After the coordinate.
    pub close: u8,
    /// After that, at the end of the word.
    pub end: &'static [u8],
    /// For messages.
    pub expected: &'static str,
}

impl Syntax {
    /// Name of the router, tile number and coordinate.
    #[inline]
    pub fn parse<'a>(&self, word: &'a [u8]) -> Option<(&'a [u8], u16, [u16; 3])> {
        // The coordinate begins at the first bracket, the tile number three bytes before it.
        let at = word.iter().position(|b| *b == self.open[0])?;
        let (name, coord) = (&word[..at], word[at..].strip_prefix(self.open)?);
        let (name, tile) = name.split_at_checked(name.len().checked_sub(3)?)?;
        let tile = tile_number(tile)?;
        let mut rest = coord.iter();
        let coord = [
            number_until(&mut rest, self.comma)?,
            number_until(&mut rest, self.comma)?,
            number_until(&mut rest, self.close)?,
        ];
        (rest.as_slice() == self.end).then_some((name, tile, coord))
    }
}

/// Reads `l32`, row and column.
#[inline]
fn tile_number(text: &[u8]) -> Option<u16> {
    match text {
        [b'l', row @ b'0'..=b'7', column @ b'0'..=b'7'] => {
            Some(u16::from(row - b'0') * 8 + u16::from(column - b'0'))
        }
        _ => None,
    }
}

/// Reads at least one digit, up to a separator.
#[inline]
fn number_until(rest: &mut std::slice::Iter<'_, u8>, end: u8) -> Option<u16> {
    let digit = |b: u8| Some(u16::from(b.wrapping_sub(b'0'))).filter(|&d| d <= 9);
    let mut value = digit(*rest.next()?)?;
    loop {
        let byte = *rest.next()?;
        if byte == end {
            return Some(value);
        }
        value = value.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
}

/// Hash of one 64-bit key; there are at most 2^48 coordinates, so an attack by collisions gains little.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        let x = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = x ^ (x >> 32);
    }
}

//! Random numbers, identical on every platform and in every release.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): a counter that
//! increases by an odd constant, and a mixing function.

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator for a seed: SplitMix64 as published.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of many independent generators for a seed.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        random.next_u64();
        random
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 if `n` is 0).
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// A number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal with mean 0 and variance 1: the sum of twelve uniform numbers, independent of the
    /// platform's mathematical library.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// The numbers 0..n in random order.
    pub fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first<const N: usize>(mut random: Random) -> [u64; N] {
        std::array::from_fn(|_| random.next_u64())
    }

    #[test]
    fn published_vectors() {
        // java.util.SplittableRandom and Vigna's splitmix64.c.
        let zero = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ];
        assert_eq!(first(Random::new(0)), zero);
        let other = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first(Random::new(1_234_567)), other);
    }

    #[test]
    fn streams_stay_as_they_are() {
        // A generator begins at the second number of its seed; mappings for a seed depend on it.
        assert_eq!(first(Random::stream(0, 0)), [0x6e78_9e6a_a1b9_65f4]);
        assert_eq!(
            first(Random::stream(7, 3)),
            [0xfeb3_9099_329f_c3dc, 0x56fa_ca06_81a9_3e90]
        );
    }

    #[test]
    fn draws_are_in_their_ranges_and_permutations_whole() {
        let mut random = Random::new(5);
        assert_eq!(random.below(0), 0);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.below(7)] = true;
            assert!((0.0..1.0).contains(&random.unit()));
            assert!(random.normal().abs() <= 6.0);
        }
        assert_eq!(seen, [true; 7]);
        let mut order = random.permutation(100);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
    }
}

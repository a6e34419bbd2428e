//! The load of links as a table.

use super::Table;
use hopbyte_fabric::units::{SIZES, TIMES, scale};
use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use hopbyte_job::links::own_window;
use std::borrow::Cow;

/// A column of the text; omitted if no link has a value.
struct Field<'a> {
    header: String,
    column: Cow<'a, Column>,
    factor: f64,
    decimals: usize,
    /// The state that says which values may be more.
    before: Option<&'a LinkState>,
}

impl<'a> Field<'a> {
    fn all(state: &'a LinkState) -> Vec<Self> {
        let field = |header: &str, column, factor, decimals| Self {
            header: header.to_owned(),
            column: Cow::Borrowed(column),
            factor,
            decimals,
            before: None,
        };
        let largest = |c: &Column| c.as_slice().iter().copied().fold(0.0, f64::max);
        let (size, bytes) = scale(largest(&state.received_bytes), &SIZES);
        let (queue, waiting) = scale(largest(&state.queued_bytes), &SIZES);
        let stall = |name: &str, ratio: &'a Column, seconds: &'a Column| {
            if ratio.known() > 0 {
                return field(&format!("{name} %"), ratio, 1e-2, 1);
            }
            let (time, unit) = scale(largest(seconds), &TIMES);
            field(&format!("{name} {time}"), seconds, unit, 2)
        };
        let mut sizes = Column::unknown(state.coverage.len());
        for id in (0..state.coverage.len()).map(LinkId::of) {
            sizes.set(id, state.packet_bytes(id));
        }
        let fields = [
            field(&format!("received {size}"), &state.received_bytes, bytes, 2),
            field("packets", &state.packets, 1.0, 0),
            Self {
                column: Cow::Owned(sizes),
                ..field("B/packet", &state.packets, 1.0, 1)
            },
            field("used %", &state.used_ratio, 1e-2, 1),
            stall(
                "input stall",
                &state.input_stall_ratio,
                &state.input_stall_seconds,
            ),
            stall(
                "credit stall",
                &state.credit_stall_ratio,
                &state.credit_stall_seconds,
            ),
            field("held back", &state.credit_stall_count, 1.0, 0),
            field(&format!("queued {queue}"), &state.queued_bytes, waiting, 2),
            Self {
                before: Some(state),
                ..field("errors", &state.errors, 1.0, 0)
            },
        ];
        fields
            .into_iter()
            .filter(|f| f.column.known() > 0)
            .collect()
    }

    fn text(&self, link: LinkId) -> String {
        let value = self.column.get(link);
        value.map_or("-".into(), |v| {
            let before = self.before.map_or("", |state| state.at_least(link));
            format!("{before}{:.*}", self.decimals, v / self.factor)
        })
    }
}

/// A row per link, in the given order, with a column for every quantity that is known of any link, the lanes if some are
/// out of service, and one more column if
/// `beside` gives its header and text.
pub fn load_table(
    fabric: &Fabric,
    state: &LinkState,
    order: &[LinkId],
    beside: Option<(&str, &dyn Fn(LinkId) -> String)>,
) -> Table {
    let fields = Field::all(state);
    let mut header = vec![
        "<link".to_owned(),
        "<to".into(),
        "<kind".into(),
        "GB/s".into(),
    ];
    header.extend(fields.iter().map(|f| f.header.clone()));
    let lanes = |id: LinkId| {
        state
            .lanes
            .get(id)
            .zip(Some(f64::from(fabric.link(id).lanes)))
    };
    let reduced = order
        .iter()
        .any(|&id| lanes(id).is_some_and(|(up, all)| up < all));
    if reduced {
        header.push("lanes".into());
    }
    let windows = order.iter().any(|&id| own_window(state, id).is_some());
    if windows {
        header.push("window s".into());
    }
    header.push("read %".into());
    header.extend(beside.map(|b| b.0.to_owned()));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header);
    for &id in order {
        let link = fabric.link(id);
        let mut cells = vec![
            fabric.link_name(id),
            fabric.end_name(link.to),
            fabric.kind(id).name.clone(),
            link.capacity().gb_text(2),
        ];
        cells.extend(fields.iter().map(|f| f.text(id)));
        if reduced {
            cells.push(lanes(id).map_or("-".into(), |(up, all)| format!("{up} of {all}")));
        }
        if windows {
            let own = state.window.get(id);
            cells.push(own.map_or("-".into(), |w| format!("{w:.3}")));
        }
        cells.push(format!("{:.0}", 100.0 * state.coverage[id.index()]));
        cells.extend(beside.map(|b| b.1(id)));
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn errors_that_may_be_more_are_said_to_be() {
        let fabric = spec::fabric("torus:2x2").unwrap();
        let mut state = LinkState::unknown(&fabric);
        let links = [LinkId::of(0), LinkId::of(1), LinkId::of(2)];
        state.errors.set(links[0], Some(65_535.0));
        state.errors.set(links[1], Some(7.0));
        state.at_least.extend([links[0], links[2]]);
        let fields = Field::all(&state);
        let said = links.map(|link| fields[0].text(link));
        assert_eq!(said, ["≥ 65535", "7", "-"]);
    }
}

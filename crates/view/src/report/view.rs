//! Contents of one picture of the report.

use super::ReportInput;
use crate::draw::{LinkLoads, Looks, Picture, Scale, Sign, Unit, badges, picture};
use hopbyte_fabric::{LinkId, NodeId};
use hopbyte_job::links::in_turn;

/// Size of each of two pictures side by side.
const HALF: [f32; 2] = [572.0, 620.0];
/// Size of a single picture.
pub const WHOLE: [f32; 2] = [1160.0, 860.0];
/// Routers and nodes up to which half the page is wide enough.
const FEW: usize = 420;
/// Number of labelled worst links.
pub const NUMBERED: usize = 10;

/// One quantity, before and after or alone.
pub struct View<'a> {
    /// Name of the quantity.
    pub name: &'a str,
    /// Values before, or the only ones.
    pub before: &'a LinkLoads,
    /// Values after.
    pub after: Option<&'a LinkLoads>,
    /// The common scale.
    pub scale: Scale,
}

impl<'a> View<'a> {
    fn new(before: &'a LinkLoads, after: Option<&'a LinkLoads>) -> Self {
        let none = Scale {
            max: 0.0,
            unit: Unit::Count,
        };
        Self {
            name: &before.name,
            before,
            after,
            scale: Scale::of(std::iter::once(before).chain(after)).unwrap_or(none),
        }
    }

    /// All views of a report, the most important first.
    pub fn all(input: &'a ReportInput<'_>) -> Vec<Self> {
        let job = input.job.as_ref().map(|job| {
            let after = job.after.as_ref().map(|a| &a.link_times);
            Self::new(&job.before.link_times, after)
        });
        let readings = input.readings.iter().map(|r| Self::new(r, None));
        job.into_iter().chain(readings).collect()
    }

    /// The same at another scale, so that pictures of different moments can be compared.
    pub fn at_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// The drawing size: all views of a report have the same.
    pub fn size(&self, input: &ReportInput<'_>) -> [f32; 2] {
        let parts = input.fabric.routers().len() + input.fabric.nodes().len();
        let compared = input.job.as_ref().is_some_and(|j| j.after.is_some());
        if compared && parts <= FEW {
            HALF
        } else {
            WHOLE
        }
    }

    /// Draws one side with its worst links numbered and the job's nodes marked.
    pub fn picture(
        &self,
        input: &ReportInput<'_>,
        loads: &LinkLoads,
        job: &[NodeId],
        size: [f32; 2],
    ) -> Picture {
        let looks = Looks::new(input.fabric, Some(loads), Some(self.scale), job);
        let looks = looks.with_signs(&input.signs);
        let mut picture = picture(&looks, size[0], size[1]);
        let worst: Vec<LinkId> = loads.worst(NUMBERED).iter().map(|&(l, _)| l).collect();
        badges::add(&mut picture, &worst);
        picture
    }

    /// Links of a report's table, worst first: links with errors in turn with the most loaded.
    pub fn listed(input: &ReportInput<'_>, views: &[Self]) -> Vec<LinkId> {
        let loaded = views.first().map_or(Vec::new(), Self::loaded);
        in_turn(&input.signs.links(Sign::Errors), &loaded)
    }

    /// Links with a load on either side, most loaded first.
    fn loaded(&self) -> Vec<LinkId> {
        let most = |i: usize| {
            let value = |l: &LinkLoads| l.values().get(i).copied().filter(|v| *v > 0.0);
            let after = self.after.and_then(value);
            value(self.before).into_iter().chain(after).reduce(f64::max)
        };
        let mut list: Vec<(f64, LinkId)> = (0..self.before.values().len())
            .filter_map(|i| Some((most(i)?, LinkId::of(i))))
            .collect();
        list.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        list.into_iter().map(|(_, l)| l).collect()
    }
}

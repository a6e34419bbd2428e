//! Recursive coordinate bisection of tasks and places together.

use crate::coords::Point;

/// Splits tasks and places at the same time, each along its longer side, until every place has its
/// own tasks. `turn` permutes the axes of the tasks before they are matched with those of the places.
/// `room` is the number of tasks that every place takes; their sum is the number of tasks.
pub(crate) fn bisect(tasks: &[Point], places: &[Point], room: &[u32]) -> Vec<u32> {
    let mut task_ids: Vec<u32> = (0..tasks.len() as u32).collect();
    let mut place_ids: Vec<u32> = (0..places.len() as u32)
        .filter(|&p| room[p as usize] > 0)
        .collect();
    let mut place_of = vec![0; tasks.len()];
    split(
        tasks,
        places,
        room,
        &mut task_ids,
        &mut place_ids,
        &mut place_of,
    );
    place_of
}

fn split(
    tasks: &[Point],
    places: &[Point],
    room: &[u32],
    task_ids: &mut [u32],
    place_ids: &mut [u32],
    place_of: &mut [u32],
) {
    if place_ids.len() <= 1 || task_ids.is_empty() {
        if let Some(&place) = place_ids.first() {
            for &mut task in task_ids {
                place_of[task as usize] = place;
            }
        }
        return;
    }
    let half = place_ids.len() / 2;
    cut(places, place_ids, half);
    let here: u32 = place_ids[..half].iter().map(|&p| room[p as usize]).sum();
    let here = here as usize;
    cut(tasks, task_ids, here);
    let (near_tasks, far_tasks) = task_ids.split_at_mut(here);
    let (near_places, far_places) = place_ids.split_at_mut(half);
    split(tasks, places, room, near_tasks, near_places, place_of);
    split(tasks, places, room, far_tasks, far_places, place_of);
}

/// Brings the lower `count` along the longest side to the front.
fn cut(points: &[Point], ids: &mut [u32], count: usize) {
    if count == 0 || count >= ids.len() {
        return;
    }
    let (mut low, mut high) = ([f32::MAX; 3], [f32::MIN; 3]);
    for &id in &*ids {
        for (d, &c) in points[id as usize].iter().enumerate() {
            low[d] = low[d].min(c);
            high[d] = high[d].max(c);
        }
    }
    let longest = (0..3).fold(0, |best, d| {
        if high[d] - low[d] > high[best] - low[best] {
            d
        } else {
            best
        }
    });
    ids.select_nth_unstable_by(count, |&a, &b| {
        let (p, q) = (&points[a as usize], &points[b as usize]);
        (0..3)
            .map(|k| p[(longest + k) % 3].total_cmp(&q[(longest + k) % 3]))
            .find(|o| o.is_ne())
            .unwrap_or(a.cmp(&b))
    });
}

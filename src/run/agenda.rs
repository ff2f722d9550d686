//! Which nodes are looked at next. A node is looked at again only when
//! something that it waits for has changed, so that a run of many nodes takes
//! a time that grows with them and their edges.

use std::collections::{BTreeSet, HashMap};

use crate::dag::Dag;

/// The nodes that may have something to be done about them.
pub(super) struct Agenda<'a> {
    order: Vec<&'a str>,
    place: HashMap<&'a str, usize>,
    /// To be looked at, by their places in the order.
    due: BTreeSet<usize>,
    /// Could start, and wait for what runs to end.
    held: BTreeSet<usize>,
}

impl<'a> Agenda<'a> {
    /// Every node is due.
    pub fn new(dag: &'a Dag) -> Self {
        let order: Vec<&str> = dag.order().iter().map(String::as_str).collect();
        let due = (0..order.len()).collect();
        Self { place: places(&order), order, due, held: BTreeSet::new() }
    }

    /// Looks at nodes in another order of the same nodes from now on.
    pub fn reorder(&mut self, order: Vec<&'a str>) {
        let place = places(&order);
        let moved = |old: &BTreeSet<usize>| old.iter().map(|at| place[self.order[*at]]).collect();
        (self.due, self.held) = (moved(&self.due), moved(&self.held));
        (self.order, self.place) = (order, place);
    }

    /// The first node of the order that is due; it no longer is.
    pub fn next(&mut self) -> Option<&'a str> {
        self.due.pop_first().map(|place| self.order[place])
    }

    /// The first node of the order that could start but for what runs.
    pub fn first_held(&self) -> Option<&'a str> {
        self.held.first().map(|place| self.order[*place])
    }

    /// Something that a node waits for has changed.
    pub fn add(&mut self, name: &str) {
        self.due.extend(self.place.get(name));
    }

    /// A node could start but for what runs.
    pub fn hold(&mut self, name: &str) {
        self.held.extend(self.place.get(name));
    }

    /// Something that ran has ended.
    pub fn release(&mut self) {
        self.due.append(&mut self.held);
    }

    /// What holds for every node has changed.
    pub fn add_all(&mut self) {
        self.due.extend(0..self.order.len());
    }
}

fn places<'a>(order: &[&'a str]) -> HashMap<&'a str, usize> {
    order.iter().enumerate().map(|(place, name)| (*name, place)).collect()
}

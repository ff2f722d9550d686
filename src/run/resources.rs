//! What nodes take while they run: processors, accelerators, and tokens that
//! the plan names.

use std::collections::BTreeMap;

use crate::evidence::host::{Gpus, Host};
use crate::plan::{CPU, GPU, Plan};

/// Amounts by resource.
pub(super) type Amounts = BTreeMap<String, u32>;

/// What there is of each resource, and who has what of it.
pub(super) struct Resources {
    total: Amounts,
    /// What running nodes and services have, by their names.
    taken: BTreeMap<String, Amounts>,
    /// What those that come first in the order wait for.
    reserved: Amounts,
}

impl Resources {
    /// All that this machine and the plan have; nobody has any of it.
    pub fn new(plan: &Plan, host: &Host) -> Self {
        let mut total: Amounts = plan.resources.clone();
        total.insert(CPU.to_owned(), u32::try_from(host.cpu.logical).unwrap_or(u32::MAX));
        let gpus = match &host.gpus {
            Gpus::Found(gpus) => gpus.len(),
            Gpus::Unavailable(_) => 0,
        };
        total.insert(GPU.to_owned(), u32::try_from(gpus).unwrap_or(u32::MAX));
        Self { total, taken: BTreeMap::new(), reserved: Amounts::new() }
    }

    /// How many processors there are.
    pub fn processors(&self) -> u32 {
        amount_of(&self.total, CPU)
    }

    /// What this machine can never give, in words.
    pub fn lacks(&self, demand: &Amounts) -> Option<String> {
        let (name, amount) = demand.iter().find(|(name, amount)| amount_of(&self.total, name) < **amount)?;
        Some(format!("it takes {amount} of `{name}` and there is {}", amount_of(&self.total, name)))
    }

    /// Whether an amount is free and not waited for by those that come first.
    pub fn has(&self, demand: &Amounts) -> bool {
        demand.iter().all(|(name, amount)| {
            let taken: u32 = self.taken.values().map(|taken| amount_of(taken, name)).sum();
            let free = amount_of(&self.total, name).saturating_sub(taken);
            free.saturating_sub(amount_of(&self.reserved, name)) >= *amount
        })
    }

    /// Gives an amount to a node or service, until it is given back.
    pub fn take(&mut self, name: &str, demand: Amounts) {
        if !demand.is_empty() {
            self.taken.insert(name.to_owned(), demand);
        }
    }

    /// Takes back what a node or service had.
    pub fn give_back(&mut self, name: &str) {
        self.taken.remove(name);
    }

    /// Keeps an amount from those that come later in the order.
    pub fn reserve(&mut self, demand: &Amounts) {
        for (name, amount) in demand {
            *self.reserved.entry(name.clone()).or_default() += amount;
        }
    }

    /// Everybody who waits is looked at again, in order.
    pub fn forget_reservations(&mut self) {
        self.reserved.clear();
    }
}

fn amount_of(amounts: &Amounts, name: &str) -> u32 {
    amounts.get(name).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts<const N: usize>(amounts: [(&str, u32); N]) -> Amounts {
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    fn machine() -> Resources {
        let total = amounts([("cpu", 4), ("gpu", 1), ("license", 2)]);
        Resources { total, taken: BTreeMap::new(), reserved: Amounts::new() }
    }

    #[test]
    fn what_is_taken_is_free_again_after_it_is_given_back() {
        let mut machine = machine();
        let half = amounts([("cpu", 2), ("license", 2)]);
        assert!(machine.has(&half));
        machine.take("a", half.clone());
        assert!(!machine.has(&half));
        assert!(machine.has(&amounts([("cpu", 2), ("gpu", 1)])));
        machine.give_back("a");
        assert!(machine.has(&half));
    }

    #[test]
    fn who_comes_first_and_waits_is_not_overtaken_by_smaller_ones() {
        let mut machine = machine();
        machine.take("running", amounts([("cpu", 3)]));
        let large = amounts([("cpu", 4)]);
        assert!(!machine.has(&large));
        machine.reserve(&large);
        assert!(!machine.has(&amounts([("cpu", 1)])), "the large one would wait for ever");
        assert!(machine.has(&amounts([("gpu", 1)])));
        machine.give_back("running");
        machine.forget_reservations();
        assert!(machine.has(&large));
    }

    #[test]
    fn a_missing_accelerator_is_said() {
        let machine = machine();
        assert_eq!(machine.processors(), 4);
        assert_eq!(machine.lacks(&amounts([("gpu", 1)])), None);
        let lacking = machine.lacks(&amounts([("gpu", 2)])).unwrap();
        assert_eq!(lacking, "it takes 2 of `gpu` and there is 1");
    }
}

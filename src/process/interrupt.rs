//! The user's wish that a run ends, and how soon.

use tokio::sync::watch;

/// How soon a run is to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Haste {
    /// It goes on.
    #[default]
    None,
    /// What runs gets its grace.
    InOrder,
    /// What runs is killed.
    AtOnce,
}

/// Raises an interrupt.
#[derive(Debug)]
pub struct Interrupter(watch::Sender<Haste>);

/// What everybody who waits listens to.
#[derive(Debug, Clone)]
pub struct Interrupt(watch::Receiver<Haste>);

/// An interrupt and who raises it.
#[must_use]
pub fn interrupt() -> (Interrupter, Interrupt) {
    let (sender, receiver) = watch::channel(Haste::None);
    (Interrupter(sender), Interrupt(receiver))
}

impl Interrupter {
    /// Whether the end was asked for.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.0.borrow() > Haste::None
    }

    /// Asks for the end, once more. Returns how soon it is to come now, or
    /// nothing where it cannot come any sooner.
    #[must_use]
    pub fn raise(&self) -> Option<Haste> {
        let mut now = None;
        self.0.send_if_modified(|haste| {
            now = match haste {
                Haste::None => Some(Haste::InOrder),
                Haste::InOrder => Some(Haste::AtOnce),
                Haste::AtOnce => None,
            };
            *haste = now.unwrap_or(*haste);
            now.is_some()
        });
        now
    }
}

impl Interrupt {
    /// One that is never raised.
    #[must_use]
    pub fn never() -> Self {
        interrupt().1
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.0.borrow() > Haste::None
    }

    /// Waits until the end is asked for.
    pub async fn raised(&self) {
        self.reached(Haste::InOrder).await;
    }

    /// Waits until the end is asked for without any grace.
    pub async fn at_once(&self) {
        self.reached(Haste::AtOnce).await;
    }

    async fn reached(&self, least: Haste) {
        if self.0.clone().wait_for(|haste| *haste >= least).await.is_err() {
            // Nobody is left who could raise it.
            std::future::pending::<()>().await;
        }
    }
}

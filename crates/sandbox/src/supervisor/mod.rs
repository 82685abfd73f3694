//! The supervisor: reads what is wanted, plans, and carries out what the engine orders.
//!
//! One loop owns all state; tasks and probes run on threads of their own and answer with events.

pub(crate) mod status;

mod engine;
mod tasks;
mod world;

use crate::boot::INSIDE;
use crate::error::Result;
use crate::folder::Folder;
use crate::plan::{Places, plan};
use crate::programs::Programs;
use crate::wanted::Wanted;
use engine::{Engine, Order, Phase};
use status::{Status, UnitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};
use world::World;

/// Pause between two looks at the world, busy and settled.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// Runs until the folder is gone.
pub(crate) fn supervise() -> Result<()> {
    let folder = Folder::at(INSIDE);
    let own = std::env::current_exe().unwrap_or_default();
    let mut supervisor = Supervisor {
        places: Places::inside(Programs::find(), own),
        world: World::new(folder.clone()),
        folder,
        engine: Engine::default(),
        wanted: None,
        told: Status::default(),
        born: Instant::now(),
    };
    supervisor.world.tell("the sandbox comes to life");
    while supervisor.turn()? {
        sleep(if supervisor.engine.is_settled() { PAUSE.1 } else { PAUSE.0 });
    }
    Ok(())
}

struct Supervisor {
    folder: Folder,
    places: Places,
    engine: Engine,
    world: World,
    wanted: Option<Wanted>,
    told: Status,
    born: Instant,
}

impl Supervisor {
    /// One look at the world; says whether the sandbox is still wanted.
    fn turn(&mut self) -> Result<bool> {
        if !self.folder.exists() {
            return Ok(false);
        }
        let wanted = self.folder.wanted()?;
        if self.wanted.as_ref() != Some(&wanted) {
            self.engine.replan(plan(&wanted, &self.places));
            self.wanted = Some(wanted);
        }
        let now = self.now();
        let mut orders = Vec::new();
        for event in self.world.events() {
            orders.extend(self.engine.event(event, now));
        }
        orders.extend(self.engine.tick(now));
        for order in orders {
            self.carry_out(order);
        }
        self.tell_status()?;
        Ok(true)
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Start(unit) => self.world.start(&unit),
            Order::Do(unit) => self.world.task(&unit),
            Order::Probe(unit) => self.world.probe(&unit),
            Order::Stop(id) => self.world.stop(&id, false),
            Order::Kill(id) => self.world.stop(&id, true),
            Order::Tell(text) => self.world.tell(&text),
        }
    }

    /// Written only when something changed but the clock.
    fn tell_status(&mut self) -> Result<()> {
        let mut status = Status {
            generation: self.wanted.as_ref().map_or(0, |wanted| wanted.generation),
            settled: self.engine.is_settled(),
            age: self.told.age,
            units: self.engine.entries().map(|entry| self.unit_status(entry)).collect(),
        };
        if status == self.told {
            return Ok(());
        }
        status.age = self.now();
        self.told = status;
        self.folder.write_status(&self.told)
    }

    fn unit_status(&self, entry: &engine::Entry) -> UnitStatus {
        UnitStatus {
            id: entry.unit.id.clone(),
            step: entry.unit.step.clone(),
            node: entry.unit.node.clone(),
            process: matches!(entry.unit.body, crate::plan::unit::Body::Process(_)),
            ready: entry.phase == Phase::Ready,
            pid: self.world.pid(&entry.unit.id),
            deaths: entry.deaths,
            trouble: entry.trouble.clone(),
            since: entry.since,
        }
    }
}

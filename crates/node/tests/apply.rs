//! Differ and apply loop on a real northbound database.
#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use support::check::{assert_always_guarded, assert_as_planned};
use support::{World, applier, northbound, run, settle, small, world};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_world_becomes_any_other_world(first in world(), second in world()) {
        run(async {
            let server = northbound();
            let mut writer = applier(&server.remote(), small());
            settle(&mut writer, &first).await;
            assert_as_planned(writer.replica(), &first);
            writer.dirty("");
            settle(&mut writer, &second).await;
            assert_as_planned(writer.replica(), &second);
            assert_always_guarded(&server, &[&first, &second]);
            // A second look, by the same process and by a new one, has nothing to write.
            let written = server.transactions().transactions.len();
            let before = writer.engine().stats();
            writer.dirty("");
            settle(&mut writer, &second).await;
            prop_assert_eq!(writer.engine().stats(), before);
            let mut restarted = applier(&server.remote(), small());
            settle(&mut restarted, &second).await;
            prop_assert_eq!(server.transactions().transactions.len(), written);
            prop_assert_eq!(restarted.engine().stats().transactions, 0);
            Ok(())
        })?;
    }
}

#[test]
fn an_empty_world_on_an_empty_database_writes_nothing() {
    run(async {
        let server = northbound();
        let mut writer = applier(&server.remote(), small());
        settle(&mut writer, &World::default()).await;
        assert_eq!(writer.engine().stats(), Default::default());
    });
}

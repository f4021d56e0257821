//! Section 6.10: on how many others a New-Order depends.

use super::settings::{MOST, SHORT, cores, tpcc_window};
use crate::failure::Failure;
use crate::reproduce::figure::{
    Claim, Content, Figure, Finding, Measure, Scope, Series, Setting, VirtualSetting, above, near,
};
use crate::reproduce::settings::{CORES, scale, scale_note, tpcc};
use heddledb::protocol::Kind;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Mix};

/// Table 1 of IC3.
pub fn table_1(scope: &Scope) -> Result<Figure, Failure> {
    let parameters = tpcc::Parameters { mix: Mix::NEW_ORDER, scale: scale(scope), ..Default::default() };
    let workload = tpcc(parameters)?;
    let series = [("direct", Measure::Direct), ("transitive", Measure::Transitive)].map(|(name, measure)| {
        let at = |&cores: &usize| {
            let window = tpcc_window(scope, cores) / 2;
            let among_writers = VirtualSetting::new(&workload, Kind::Ic3NoRendezvous, cores, window);
            let setting = VirtualSetting { read_only: ReadOnly::Snapshot, census: true, ..among_writers };
            (cores as f64, Setting::Virtual(setting))
        };
        Series { name: name.to_owned(), measure, points: cores(scope).iter().map(at).collect() }
    });
    let mut notes = scale_note(scope);
    notes.push("Counted are others that have not ended when the dependency arises.".into());
    notes.push(
        "Under ic3-no-rendezvous: with ic3 itself workers can come to stand still on 64 cores where all run New-Order."
            .into(),
    );
    Ok(Figure {
        id: "table1",
        title: "Dependencies of a New-Order under IC3, by cores",
        section: "§6.10",
        axis: CORES,
        content: Content::Points(series.into()),
        notes,
        claims: vec![
            Claim::new(
                "A New-Order directly depends on more others the more cores there are (0.6 on 8, 6.3 on 64).",
                |results| {
                    let at = |cores| results.at_or_zero("direct", cores);
                    let (eight, most) = (at(8.0)?, at(MOST)?);
                    let rises = at(1.0)? <= eight && above(at(32.0)?, eight) && above(most, at(32.0)?);
                    let holds = rises && near(most, 6.3);
                    Ok(Finding::new(holds, format!("{eight:.2} on 8, {most:.2} on 64")))
                },
            )
            .otherwise(SHORT),
            Claim::new(
                "Transitively it depends on hardly any up to 16 cores (0.13), on 1 at 32, on 9.5 at 64.",
                |results| {
                    let at = |cores| results.at_or_zero("transitive", cores);
                    let (sixteen, half, most) = (at(16.0)?, at(32.0)?, at(MOST)?);
                    let holds = sixteen < 0.5 && near(half, 0.97) && near(most, 9.5);
                    Ok(Finding::new(holds, format!("{sixteen:.2} on 16, {half:.2} on 32, {most:.2} on 64")))
                },
            )
            .otherwise(SHORT),
        ],
    })
}

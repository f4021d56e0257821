//! What was found in a directory, as text and as JSON.

use super::told::{
    CheckpointTold, Examined, Fate, GenerationTold, ManifestTold, Names, ProcedureTold, Told, TornTold,
};
use crate::failure::Failure;
use crate::report::table::{align, empty, lines, paint};
use heddledb::internals::log::Command;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;

/// Everything as JSON.
pub fn json(examined: &impl Serialize) -> Result<String, Failure> {
    finished(serde_json::to_string_pretty(examined))
}

/// Everything as JSON on one line.
pub fn line(examined: &impl Serialize) -> Result<String, Failure> {
    finished(serde_json::to_string(examined))
}

fn finished(text: serde_json::Result<String>) -> Result<String, Failure> {
    text.map(|text| text + "\n")
        .map_err(|error| Failure::run(format!("what was found cannot be written as JSON: {error}")))
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Counts => "counts",
        Fate::InCheckpoint => "in the checkpoint",
        Fate::Dropped => "dropped: its epoch was not closed",
    }
}

fn groups(set: u32) -> Vec<u32> {
    (0..16).filter(|group| set >> group & 1 == 1).collect()
}

fn hex(words: &[u64]) -> Vec<String> {
    words.iter().map(|word| format!("{word:016x}")).collect()
}

/// A transaction as JSON on one line.
pub fn transaction_json(names: &Names, told: &Told<'_>) -> String {
    let write = |write: heddledb::internals::log::Write<'_>| {
        json!({
            "relation": names.of(write.relation),
            "key": hex(write.key),
            "deleted": !write.present,
            "groups": groups(write.groups),
            "data_words": write.data.len(),
        })
    };
    let writes: Vec<_> = told.entry.writes().map(write).collect();
    let call = told.entry.command().map(|command| {
        json!({
            "procedure": procedure(names, command),
            "arguments": bytes(&command.arguments()),
            "cells": command.cells().count(),
            "alone": told.entry.is_alone(),
            "digest": format!("{:016x}", command.digest),
        })
    });
    let object = json!({
        "generation": told.generation,
        "round": told.round,
        "file": told.file,
        "epoch": told.entry.epoch(),
        "time": format!("{:016x}", told.entry.time()),
        "counts": told.fate == Fate::Counts,
        "fate": fate(told.fate),
        "call": call,
        "writes": writes,
    });
    format!("{object}\n")
}

/// A procedure's name and version, or its number where that is not known.
fn procedure(names: &Names, command: &Command<'_>) -> String {
    match names.procedure(command.procedure) {
        Some(entry) => format!("{} version {}", entry.name, entry.version),
        None => format!("procedure {}", command.procedure),
    }
}

fn bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A transaction as text: a line for it, and one for its call or for each write.
pub fn transaction(names: &Names, told: &Told<'_>) -> String {
    let Told { generation, file, round, entry, .. } = told;
    let (epoch, time) = (entry.epoch(), entry.time());
    let mut text =
        format!("generation {generation}, round {round}, file {file}: epoch {epoch}, time {time:016x}");
    if told.fate != Fate::Counts {
        let _ = write!(text, "  ({})", fate(told.fate));
    }
    text.push('\n');
    if let Some(command) = entry.command() {
        let (name, arguments) = (procedure(names, command), bytes(&command.arguments()));
        let cells = count(command.cells().count() as u64, "cell");
        let alone = if entry.is_alone() { ", alone" } else { "" };
        let _ =
            writeln!(text, "  calls {name}  [{arguments}]  {cells}{alone}, digest {:016x}", command.digest);
    }
    for write in entry.writes() {
        let (name, key) = (names.of(write.relation), hex(write.key).join(" "));
        let what = match write.present {
            true => {
                let groups: Vec<String> = groups(write.groups).iter().map(u32::to_string).collect();
                format!("groups {}, {}", groups.join(" "), count(write.data.len() as u64, "word"))
            }
            false => "deleted".to_owned(),
        };
        let _ = writeln!(text, "  {name}  [{key}]  {what}");
    }
    text
}

/// A number and what is counted.
fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Bytes in the unit that suits them.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift != 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The whole directory as text.
pub fn directory(examined: &Examined, colours: bool) -> String {
    let mut text = format!("{}\n", examined.place);
    if examined.in_use {
        text += "a database has it open: what is shown here may be of several moments\n";
    }
    match &examined.manifest {
        Some(told) => text += &manifest(told, colours),
        None => {
            text += "\nno manifest can be read, so what follows is what the log's files say themselves; \
                     nobody knows which of them count\n";
        }
    }
    if let Some(told) = &examined.checkpoint {
        text += &checkpoint(told, colours);
    } else if examined.manifest.is_some() {
        text += "\nno checkpoint\n";
    }
    for told in &examined.generations {
        text += &generation(told, colours);
    }
    let _ = writeln!(text, "\nthe last durable epoch is {}", examined.durable_epoch);
    if let Some(reach) = &examined.reach {
        let _ = writeln!(text, "it can be restored to {reach}");
    }
    if let Some(of) = &examined.copy_of {
        let _ = writeln!(text, "it is a copy of the directory {of}");
    }
    if !examined.unlisted.is_empty() {
        let names = examined.unlisted.join(", ");
        let _ = writeln!(text, "not listed, so removed at the next opening: {names}");
    }
    text + &problems(examined, colours)
}

fn problems(examined: &Examined, colours: bool) -> String {
    let mut text = String::new();
    for problem in &examined.problems {
        let _ = writeln!(text, "{} {}", paint("DAMAGED", "31;1", colours), problem.message);
    }
    text
}

fn manifest(told: &ManifestTold, colours: bool) -> String {
    let ManifestTold { directory, next_generation, floor, relations, procedures, changes } = told;
    let mut text = format!(
        "\nmanifest: directory {directory}, next generation {next_generation}, next epoch at least {floor}\n"
    );
    let mut table = empty(colours);
    table.set_header(["id", "relation", "key words", "words of groups", "standing"]);
    for relation in relations {
        let groups: Vec<String> = relation.groups.iter().map(u32::to_string).collect();
        table.add_row([
            relation.id.to_string(),
            relation.name.clone(),
            relation.key_words.to_string(),
            groups.join(" "),
            relation.standing.to_owned(),
        ]);
    }
    text += &lines(&table);
    for relation in relations {
        let _ = writeln!(text, " {}: {}", relation.name, relation.schema);
    }
    for ProcedureTold { id, name, version, fingerprint } in procedures {
        let _ = writeln!(text, " procedure {id}: {name}, version {version}, fingerprint {fingerprint}");
    }
    if *changes > 0 {
        let _ = writeln!(text, " changes of the schema taken: {changes}");
    }
    text
}

fn checkpoint(told: &CheckpointTold, colours: bool) -> String {
    let rows: u64 = told.parts.iter().map(|part| part.rows).sum();
    let bytes: u64 = told.parts.iter().map(|part| part.bytes).sum();
    let mut text = format!(
        "\ncheckpoint {}: all commits of epochs up to {}, {}, {}\n",
        told.number,
        told.epoch,
        count(rows, "row"),
        size(bytes)
    );
    let mut table = empty(colours);
    table.set_header(["file", "bytes", "frames", "rows", "rows listed"]);
    for part in &told.parts {
        let numbers = [part.bytes, part.frames, part.rows, part.rows_listed].map(|number| number.to_string());
        table.add_row(std::iter::once(part.file.clone()).chain(numbers));
    }
    align(&mut table, 1);
    text += &lines(&table);
    if !told.relations.is_empty() {
        let mut table = empty(colours);
        table.set_header(["relation", "rows", "bytes"]);
        for relation in &told.relations {
            table.add_row([relation.relation.clone(), relation.rows.to_string(), relation.bytes.to_string()]);
        }
        align(&mut table, 1);
        text += &lines(&table);
    }
    text
}

fn torn(told: &TornTold) -> String {
    format!(
        "a torn tail of {} from byte {} of {} on ({}); nobody had been told that it is durable, and the next \
         opening cuts it off",
        count(told.bytes, "byte"),
        told.offset,
        told.file,
        told.what
    )
}

fn generation(told: &GenerationTold, colours: bool) -> String {
    let state = match told.closed_after {
        Some(rounds) => format!("closed after {}", count(rounds, "round")),
        None => "not closed".to_owned(),
    };
    let mut text = format!(
        "\ngeneration {}, {state}: {} whole up to epoch {}, highest epoch {}; {} with {}",
        told.number,
        count(told.rounds, "round"),
        told.closed_epoch,
        told.highest_epoch,
        count(told.transactions, "transaction"),
        count(told.writes, "write"),
    );
    if told.calls > 0 {
        let _ = write!(text, ", {} among them", count(told.calls, "call"));
    }
    if told.in_checkpoint > 0 {
        let _ = write!(text, ", {} more in the checkpoint", told.in_checkpoint);
    }
    if told.dropped > 0 {
        let after = told.counts_up_to_epoch;
        let _ = write!(text, ", {} dropped, of epochs after {after}", told.dropped);
    }
    text.push('\n');
    let mut table = empty(colours);
    table.set_header(["file", "bytes", "of whole rounds", "frames", "compressed", "transactions"]);
    for file in &told.files {
        let numbers = [file.bytes, file.bytes_whole, file.frames, file.compressed, file.transactions];
        table.add_row(std::iter::once(file.file.clone()).chain(numbers.map(|number| number.to_string())));
    }
    align(&mut table, 1);
    text += &lines(&table);
    if !told.relations.is_empty() {
        let mut table = empty(colours);
        table.set_header(["relation", "writes", "deletes", "bytes"]);
        for relation in &told.relations {
            let numbers =
                [relation.writes, relation.deletes, relation.bytes].map(|number| number.to_string());
            table.add_row(std::iter::once(relation.relation.clone()).chain(numbers));
        }
        align(&mut table, 1);
        text += &lines(&table);
    }
    if let Some(told) = &told.torn {
        let _ = writeln!(text, "{}", torn(told));
    }
    text
}

/// Whether the directory is whole, in a few lines.
pub fn judgement(examined: &Examined, colours: bool) -> String {
    let mut text = problems(examined, colours);
    for generation in &examined.generations {
        if let Some(told) = &generation.torn {
            let _ = writeln!(text, "note: {}", torn(told));
        }
    }
    if !examined.unlisted.is_empty() {
        let _ = writeln!(
            text,
            "note: {} left by a crash or a failed checkpoint, which the next opening removes: {}",
            count(examined.unlisted.len() as u64, "file"),
            examined.unlisted.join(", ")
        );
    }
    if !examined.whole {
        let found = count(examined.problems.len() as u64, "problem");
        let _ = writeln!(text, "{} {}: {found}", paint("FAILED", "31;1", colours), examined.place);
        return text;
    }
    let rows: u64 = examined.checkpoint.iter().flat_map(|told| &told.parts).map(|part| part.rows).sum();
    let transactions: u64 = examined.generations.iter().map(|told| told.transactions).sum();
    let bytes: u64 =
        examined.generations.iter().flat_map(|told| &told.files).map(|file| file.bytes_whole).sum();
    let _ = writeln!(
        text,
        "{} {} is whole up to epoch {}: {} in its checkpoint, {} in {} and {} of log",
        paint("ok", "32;1", colours),
        examined.place,
        examined.durable_epoch,
        count(rows, "row"),
        count(transactions, "transaction"),
        count(examined.generations.len() as u64, "generation"),
        size(bytes)
    );
    text
}

//! Intruder: packets of flows are put together, and each flow is searched for the signature of an attack.
//!
//! A worker pops a packet, decodes it (puts it to the others of its flow, and all of them together where it is the last), pops a
//! flow that is complete, and searches it; the first three are a transaction each, and the search is none. Which rows they are
//! about is known only when a queue is read, so nothing is deferred, as in DRP.

use super::{Application, Place};
use crate::Check;
use crate::random::{chance, shuffle, stream};
use crate::verdict::{Verdict, equal};
use heddledb::objects::{Element, TMap, TQueue};
use heddledb::{Builder, Database, Misuse, Objects, Result, Session, Transaction};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What attacks have among their bytes; other flows have small letters alone.
const SIGNATURES: [&[u8]; 4] = [b"ATTACK", b"EXPLOIT", b"OVERFLOW", b"ROOTKIT"];
/// Bytes of a flow at most, but for a signature.
const BYTES_MAX: usize = 256;

/// A part of a flow.
#[derive(Element, Clone, Debug)]
pub struct Packet {
    flow: u64,
    /// Which one it is.
    part: u32,
    /// How many the flow has.
    count: u32,
    data: Vec<u8>,
}

/// A flow that is complete.
#[derive(Element, Clone, Debug)]
pub struct Flow {
    flow: u64,
    data: Vec<u8>,
}

/// The objects.
#[derive(Objects)]
pub struct Network {
    packets: TQueue<Packet>,
    /// What has come of flows that are not complete, by flow and number.
    fragments: TMap<(u64, u32), Vec<u8>>,
    /// How many packets of such a flow have come.
    #[hash]
    received: TMap<u64, u32>,
    complete: TQueue<Flow>,
}

/// The parameters of [`Intruder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Flows; DRP has 262,144.
    pub flows: u64,
    /// Packets of a flow at most; DRP has 128.
    pub packets: u32,
    /// Percentage of flows that are attacks.
    pub attack_pct: u32,
}

impl Default for Parameters {
    /// STAMP's small input with longer flows.
    fn default() -> Self {
        Self { flows: 4_096, packets: 16, attack_pct: 10 }
    }
}

/// Intruder with its parameters.
#[derive(Debug)]
pub struct Intruder {
    parameters: Parameters,
}

/// What a run knows.
pub struct State {
    /// The flows, and whether each is an attack.
    flows: Vec<(Vec<u8>, bool)>,
    /// How often a flow was searched, with what it was then, and whether an attack was found.
    searched: Mutex<BTreeMap<u64, Vec<Searched>>>,
}

/// What was searched, and whether an attack was found.
type Searched = (Vec<u8>, bool);

fn is_attack(data: &[u8]) -> bool {
    SIGNATURES.iter().any(|signature| data.windows(signature.len()).any(|window| window == *signature))
}

impl Intruder {
    /// The application with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { flows, packets, attack_pct } = parameters;
        if flows == 0 || packets == 0 || attack_pct > 100 {
            let reason = format!(
                "there is a flow and a packet at least, and a percentage is up to 100: {flows}, {packets} and {attack_pct} are not"
            );
            return Err(Misuse::Option(reason).into());
        }
        Ok(Self { parameters })
    }

    /// Draws a flow.
    fn flow(&self, rng: &mut SmallRng) -> (Vec<u8>, bool) {
        let bytes = rng.random_range(1..=BYTES_MAX);
        let mut data: Vec<u8> = (0..bytes).map(|_| rng.random_range(b'a'..=b'z')).collect();
        let attacks = chance(rng, self.parameters.attack_pct);
        if attacks {
            let signature = SIGNATURES[rng.random_range(0..SIGNATURES.len())];
            let at = rng.random_range(0..=data.len());
            data.splice(at..at, signature.iter().copied());
        }
        (data, attacks)
    }

    /// Cuts a flow into packets, each of a byte at least.
    fn cut(&self, rng: &mut SmallRng, flow: u64, data: &[u8]) -> Vec<Packet> {
        let count = rng.random_range(1..=(self.parameters.packets as usize).min(data.len()));
        let mut ends: Vec<usize> = (1..data.len()).collect();
        shuffle(rng, &mut ends);
        ends.truncate(count - 1);
        ends.push(data.len());
        ends.sort_unstable();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        (0..)
            .zip(starts.zip(&ends))
            .map(|(number, (start, end))| Packet {
                flow,
                part: number,
                count: count as u32,
                data: data[start..*end].to_vec(),
            })
            .collect()
    }
}

/// Puts a packet to its flow.
fn decode(tx: &mut impl Transaction, packet: &Packet) -> Result<()> {
    let Packet { flow, part: number, count, ref data } = *packet;
    let received = Network::received.get(tx, flow)?.unwrap_or(0) + 1;
    if received < count {
        Network::received.insert(tx, flow, received)?;
        return Network::fragments.insert(tx, (flow, number), data.clone()).map(drop);
    }
    let mut fragments = vec![(number, data.clone())];
    Network::fragments.for_each_of(tx, (flow,), |(_, number), data| fragments.push((number, data)))?;
    for (number, _) in &fragments[1..] {
        Network::fragments.remove(tx, (flow, *number))?;
    }
    Network::received.remove(tx, flow)?;
    fragments.sort_unstable();
    let data = fragments.into_iter().flat_map(|(_, data)| data).collect();
    Network::complete.push(tx, Flow { flow, data })
}

impl Application for Intruder {
    type State = State;

    fn name(&self) -> &'static str {
        "intruder"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [
            ("flows", p.flows.to_string()),
            ("packets", p.packets.to_string()),
            ("attack_pct", p.attack_pct.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Network>()
    }

    fn load(&self, db: &Database, seed: u64) -> Result<State> {
        let rng = &mut stream(seed, 0);
        let flows: Vec<_> = (0..self.parameters.flows).map(|_| self.flow(rng)).collect();
        let mut packets: Vec<Packet> =
            (0..).zip(&flows).flat_map(|(flow, (data, _))| self.cut(rng, flow, data)).collect();
        shuffle(rng, &mut packets);
        let mut session = db.session()?;
        for some in packets.chunks(64) {
            session.run(|tx| some.iter().try_for_each(|packet| Network::packets.push(tx, packet.clone())))?;
        }
        Ok(State { flows, searched: Mutex::default() })
    }

    fn work(&self, _place: &Place<'_>, session: &mut Session, state: &State) -> Result<()> {
        while let Some(packet) = session.run(|tx| Network::packets.pop(tx))? {
            session.run(|tx| decode(tx, &packet))?;
            if let Some(Flow { flow, data }) = session.run(|tx| Network::complete.pop(tx))? {
                let found = is_attack(&data);
                let mut searched = state.searched.lock().unwrap_or_else(PoisonError::into_inner);
                searched.entry(flow).or_default().push((data, found));
            }
        }
        Ok(())
    }

    fn check(&self, db: &Database, state: &State) -> Result<Vec<Check>> {
        let searched = state.searched.lock().unwrap_or_else(PoisonError::into_inner);
        let mut whole = Verdict::new("every flow was put together as it was, and searched once");
        for (flow, (data, _)) in (0..).zip(&state.flows) {
            let found = searched.get(&flow).map_or(&[][..], |found| &found[..]);
            whole.require(found.len() == 1 && found[0].0 == *data, || {
                format!("flow {flow} was searched {} times", found.len())
            });
        }
        let attacks = state.flows.iter().filter(|(_, attacks)| *attacks).count();
        let found = searched.values().flatten().filter(|(_, found)| *found).count();
        let left = db.session()?.run(|tx| {
            let queued = Network::packets.len(tx)? + Network::complete.len(tx)?;
            Ok(queued + Network::fragments.len(tx)?)
        })?;
        Ok(vec![
            whole.finish(),
            equal("every attack was found", ("found", found as i128), ("generated", attacks as i128)),
            equal("nothing is left", ("packets and flows", left.into()), ("expected", 0)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_make_up_their_flow() {
        let intruder =
            Intruder::new(Parameters { packets: 5, attack_pct: 30, ..Parameters::default() }).unwrap();
        let rng = &mut stream(3, 0);
        let mut attacks = 0;
        for _ in 0..500 {
            let (data, attack) = intruder.flow(rng);
            assert_eq!(is_attack(&data), attack);
            attacks += usize::from(attack);
            let packets = intruder.cut(rng, 7, &data);
            assert!((1..=5).contains(&packets.len()));
            assert!(
                packets
                    .iter()
                    .all(|packet| packet.count as usize == packets.len() && !packet.data.is_empty())
            );
            assert_eq!(packets.iter().flat_map(|packet| packet.data.clone()).collect::<Vec<_>>(), data);
        }
        assert!((100..200).contains(&attacks), "{attacks}");
    }
}

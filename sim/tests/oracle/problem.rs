//! Small random problems: up to four nodes and a group of up to five members.

use berth_core::framework::rng::Rng;

#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) nodes: Vec<Node>,
    pub(crate) members: Vec<Member>,
    pub(crate) min: usize,
    /// Members of the second kind that are needed, where the group has parts.
    pub(crate) workers: Option<usize>,
    /// Devices that every node reaches.
    pub(crate) fabric: usize,
    /// What shared claims ask for.
    pub(crate) shared: Vec<Want>,
    pub(crate) together: Together,
    pub(crate) spread: Option<Spread>,
    /// So many members may be in one rack.
    pub(crate) at_most: Option<usize>,
    /// Zones are what objects list, and not the values of a label.
    pub(crate) described: bool,
    /// Where a pod of another group runs that all members must be near.
    pub(crate) peer: Option<usize>,
}

/// Members that are to be spread over hosts or racks, with whoever else has their label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) by: By,
    pub(crate) max_skew: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Host,
    Rack,
}

/// Which members must be in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    Anywhere,
    All,
    /// Those of the second kind, where they are a part.
    Workers,
    /// The first two, the next two, and so on.
    Pairs,
}

impl Together {
    /// Tells whether two members, by their place in the problem, must be in one zone.
    pub(crate) fn binds(self, problem: &Problem, one: usize, other: usize) -> bool {
        let worker = |at: usize| problem.members[at].worker;
        match self {
            Together::Anywhere => false,
            Together::All => true,
            Together::Workers => problem.workers.is_some() && worker(one) && worker(other),
            Together::Pairs => one / 2 == other / 2,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) cpu: i64,
    pub(crate) gpus: i64,
    pub(crate) pods: i64,
    pub(crate) zone: u64,
    pub(crate) rack: Option<u64>,
    /// Pods of nobody's that count where members are spread.
    pub(crate) others: i64,
    pub(crate) devices: Devices,
}

/// What is on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    None,
    /// Whole devices, two a root.
    Whole(usize),
    /// Cards, each to be had whole or in two halves.
    Cards(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) cpu: i64,
    pub(crate) gpus: i64,
    pub(crate) zone: Option<u64>,
    pub(crate) worker: bool,
    /// It minds how members are spread.
    pub(crate) spreads: bool,
    pub(crate) claims: Vec<Claim>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Own(Want),
    /// Index into the problem's shared claims.
    Shared(usize),
}

/// What a claim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// So many whole devices.
    Whole(usize),
    /// Two whole devices on one root.
    Near,
    Half,
    /// A whole device, else a half.
    Either,
    /// One that every node reaches.
    Fabric,
    /// One of those, and a whole device.
    Both,
}

impl Problem {
    pub(crate) fn of(seed: u64, claims: bool) -> Problem {
        let mut rng = Rng::stream(seed, "oracle", "", u64::from(claims));
        let rng = &mut rng;
        let nodes = (0..1 + rng.below(4)).map(|_| node(rng, claims)).collect();
        let kinds: Vec<Member> = (0..1 + rng.below(3)).map(|_| member(rng)).collect();
        let count = 2 + rng.below(4);
        let shared = match claims && rng.below(3) == 0 {
            true => (0..1 + rng.below(2)).map(|_| want(rng)).collect(),
            false => Vec::new(),
        };
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..count {
            let mut member = kinds[rng.below(kinds.len() as u64) as usize].clone();
            if claims {
                member.claims = wanted(rng, &shared);
            }
            members.push(member);
        }
        if claims && rng.below(2) == 0 {
            // Members alike, as a job has them.
            let first = members[0].claims.clone();
            members.iter_mut().for_each(|member| member.claims.clone_from(&first));
        }
        let all = members.len();
        let min = if rng.below(3) == 0 { 1 + rng.below(all as u64) as usize } else { all };
        let n_workers = members.iter().filter(|member| member.worker).count();
        let parts = n_workers > 0 && rng.below(4) == 0;
        let workers = parts.then(|| 1 + rng.below(n_workers as u64) as usize);
        let fabric = if claims { rng.below(4) as usize } else { 0 };
        let together = match rng.below(6) {
            0 => Together::All,
            1 => Together::Workers,
            2 => Together::Pairs,
            _ => Together::Anywhere,
        };
        let mut problem = Problem {
            nodes,
            members,
            min,
            workers,
            fabric,
            shared,
            together,
            spread: None,
            at_most: None,
            described: false,
            peer: None,
        };
        match rng.below(8) {
            0 | 1 if !claims => problem.spread_out(rng),
            2 => problem.limit(rng),
            _ => {}
        }
        problem.described = problem.together != Together::Anywhere && rng.below(3) == 0;
        if problem.together == Together::All && rng.below(4) == 0 {
            let peer = rng.below(problem.nodes.len() as u64) as usize;
            problem.nodes[peer].pods += 1;
            problem.peer = Some(peer);
        }
        problem
    }

    /// Returns the zone that all members must be in, if others say so.
    pub(crate) fn zone_of_peer(&self) -> Option<u64> {
        self.peer.map(|peer| self.nodes[peer].zone)
    }

    /// Returns how many pods are on a node that are none of the group's.
    pub(crate) fn strangers(&self, node: usize) -> i64 {
        self.nodes[node].others + i64::from(self.peer == Some(node))
    }

    fn limit(&mut self, rng: &mut Rng) {
        self.at_most = Some(1 + rng.below(3) as usize);
        for node in &mut self.nodes {
            node.rack = (rng.below(8) > 0).then(|| rng.below(3));
        }
    }

    fn spread_out(&mut self, rng: &mut Rng) {
        let by = if rng.below(2) == 0 { By::Host } else { By::Rack };
        self.spread = Some(Spread { by, max_skew: 1 + rng.below(2) as i64 });
        self.together = if rng.below(2) == 0 { Together::All } else { Together::Anywhere };
        for node in &mut self.nodes {
            node.rack = (rng.below(6) > 0).then(|| rng.below(2));
            node.others = i64::from(rng.below(4) == 0);
            node.pods += node.others;
        }
        let all = rng.below(3) > 0;
        self.members.iter_mut().for_each(|member| member.spreads = all || rng.below(2) == 0);
    }
}

fn node(rng: &mut Rng, claims: bool) -> Node {
    let devices = match rng.below(4) {
        _ if !claims => Devices::None,
        0 | 1 => Devices::Whole(1 + rng.below(4) as usize),
        2 => Devices::Cards(1 + rng.below(2) as usize),
        _ => Devices::None,
    };
    Node {
        cpu: 2 + rng.below(7) as i64,
        gpus: rng.below(5) as i64,
        pods: 1 + rng.below(5) as i64,
        zone: rng.below(2),
        rack: None,
        others: 0,
        devices,
    }
}

fn member(rng: &mut Rng) -> Member {
    Member {
        cpu: 1 + rng.below(4) as i64,
        gpus: rng.below(3) as i64,
        zone: (rng.below(3) == 0).then(|| rng.below(2)),
        worker: rng.below(2) == 0,
        spreads: false,
        claims: Vec::new(),
    }
}

fn want(rng: &mut Rng) -> Want {
    match rng.below(7) {
        0 | 1 => Want::Whole(1 + rng.below(2) as usize),
        2 => Want::Near,
        3 => Want::Half,
        4 => Want::Either,
        5 => Want::Fabric,
        _ => Want::Both,
    }
}

fn wanted(rng: &mut Rng, shared: &[Want]) -> Vec<Claim> {
    let mut claims = Vec::new();
    if !shared.is_empty() && rng.below(2) == 0 {
        claims.push(Claim::Shared(rng.below(shared.len() as u64) as usize));
    }
    if rng.below(3) > 0 {
        claims.push(Claim::Own(want(rng)));
    }
    claims
}

//! The points that are measured.

use crate::Result;

/// Where events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kept {
    Embedded,
    Redis,
    /// Three masters.
    Cluster,
}

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Pending,
    Queues,
    Buckets,
    Nodes,
    Payloads,
    Cluster,
}

/// One point of a part: all is usual but for what grows.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) part: Part,
    pub(crate) kept: Kept,
    /// What grows, as a number.
    pub(crate) size: u64,
    /// Events that are in the store already, due in an hour and later.
    pub(crate) pending: u64,
    pub(crate) queues: u64,
    pub(crate) buckets: Option<u16>,
    pub(crate) nodes: u64,
    pub(crate) payload_bytes: usize,
}

const BOTH: &[Kept] = &[Kept::Embedded, Kept::Redis];

impl Part {
    const ALL: [Self; 6] = [
        Self::Pending,
        Self::Queues,
        Self::Buckets,
        Self::Nodes,
        Self::Payloads,
        Self::Cluster,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queues => "queues",
            Self::Buckets => "buckets",
            Self::Nodes => "nodes",
            Self::Payloads => "payloads",
            Self::Cluster => "cluster",
        }
    }

    fn kept(self) -> &'static [Kept] {
        match self {
            Self::Pending | Self::Queues | Self::Buckets | Self::Payloads => BOTH,
            Self::Nodes => &[Kept::Redis],
            Self::Cluster => &[Kept::Redis, Kept::Cluster],
        }
    }

    fn sizes(self) -> &'static [u64] {
        match self {
            Self::Pending => &[10_000, 100_000, 1_000_000, 10_000_000],
            Self::Queues => &[1, 10, 100, 1_000],
            Self::Buckets => &[1, 4, 16, 64],
            Self::Nodes => &[1, 2, 5, 10, 20],
            Self::Payloads => &[64, 1_024, 32_768, 1_048_576],
            Self::Cluster => &[1],
        }
    }
}

impl Kept {
    const ALL: [Self; 3] = [Self::Embedded, Self::Redis, Self::Cluster];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::Cluster => "three-masters",
        }
    }
}

impl Point {
    fn new(part: Part, kept: Kept, size: u64) -> Self {
        let usual = Self {
            part,
            kept,
            size,
            pending: 0,
            queues: 4,
            buckets: None,
            nodes: 1,
            payload_bytes: 64,
        };
        match part {
            Part::Pending => Self {
                pending: size,
                ..usual
            },
            Part::Queues => Self {
                queues: size,
                ..usual
            },
            Part::Buckets => Self {
                buckets: Some(size as u16),
                queues: 1,
                ..usual
            },
            Part::Nodes => Self {
                nodes: size,
                buckets: Some(64),
                queues: 1,
                ..usual
            },
            Part::Payloads => Self {
                payload_bytes: size as usize,
                ..usual
            },
            Part::Cluster => usual,
        }
    }

    /// `pending/redis/10000`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}/{}", self.part.name(), self.kept.name(), self.size)
    }

    pub(crate) fn named(name: &str) -> Result<Self> {
        let unknown = || format!("there is no point {name:?}");
        let mut words = name.split('/');
        let mut word = || words.next().ok_or_else(unknown);
        let (part, kept, size) = (word()?, word()?, word()?);
        let part = Part::ALL.into_iter().find(|it| it.name() == part);
        let kept = Kept::ALL.into_iter().find(|it| it.name() == kept);
        let (part, kept) = part.zip(kept).ok_or_else(unknown)?;
        Ok(Self::new(part, kept, size.parse()?))
    }

    /// Events of one push, or of one drain: less of large ones, so that a point takes seconds.
    pub(crate) fn events(&self) -> usize {
        (64_000_000 / self.payload_bytes).clamp(200, 50_000)
    }
}

/// Everything, or the small sizes.
pub(crate) fn points(quick: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for part in Part::ALL {
        let sizes = part.sizes();
        let sizes = if quick { &sizes[..1] } else { sizes };
        for size in sizes {
            let kept = part.kept().iter();
            points.extend(kept.map(|kept| Point::new(part, *kept, *size)));
        }
    }
    points
}

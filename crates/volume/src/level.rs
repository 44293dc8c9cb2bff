//! Service levels of cloud file volumes: throughput that grows with the quota.

/// A service level of Azure `NetApp` Files.
///
/// Source: Microsoft Learn, "Service levels for Azure `NetApp` Files" (automatic `QoS`; reads and writes are counted together).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceLevel {
    /// 16 MiB/s per TiB.
    Standard,
    /// 64 MiB/s per TiB.
    Premium,
    /// 128 MiB/s per TiB.
    Ultra,
}

impl ServiceLevel {
    /// All of them, slowest first.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Premium, Self::Ultra];

    /// The level called `name` (`standard`, `premium`, `ultra`).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Premium => "premium",
            Self::Ultra => "ultra",
        }
    }

    /// MiB/s per TiB of quota, which is the same number as bytes/s per MiB of quota.
    pub const fn mib_per_s_per_tib(self) -> u64 {
        match self {
            Self::Standard => 16,
            Self::Premium => 64,
            Self::Ultra => 128,
        }
    }

    /// Bytes per second of a volume with this quota; at least 1.
    pub const fn throughput_bytes_per_s(self, quota_bytes: u64) -> u64 {
        let throughput = (quota_bytes as u128 * self.mib_per_s_per_tib() as u128) >> 20;
        if throughput == 0 { 1 } else { throughput as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const TIB: u64 = 1 << 40;

    #[test]
    fn throughput_is_quota_times_level() {
        assert_eq!(ServiceLevel::Ultra.throughput_bytes_per_s(4 * TIB), 512 * MIB);
        assert_eq!(ServiceLevel::Premium.throughput_bytes_per_s(2 * TIB), 128 * MIB);
        assert_eq!(ServiceLevel::Premium.throughput_bytes_per_s(100 * GIB), 6 * MIB + MIB / 4);
        assert_eq!(ServiceLevel::Standard.throughput_bytes_per_s(TIB), 16 * MIB);
        assert_eq!(ServiceLevel::Standard.throughput_bytes_per_s(1), 1);
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(ServiceLevel::from_name("premium"), Some(ServiceLevel::Premium));
        assert_eq!(ServiceLevel::from_name("Premium"), None);
    }
}

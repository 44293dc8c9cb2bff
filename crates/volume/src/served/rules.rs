//! The rules of an export, as exports(5) has them: which clients may use it, and as whom.
//!
//! A client is its address: `AUTH_SYS` lets it state any user, and nothing here proves the statement. Squashing takes root's rights
//! from clients; it does not protect the files of one user from a client that states another.
//!
//! Rules hold for every program that gives out or takes handles: a program gets its [`Caller`] from [`ExportRules::admit`] alone.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use iocurve_wire::nfs3::nfsstat3;

use crate::store::access::{Caller, Rights};

/// The user and group that NFS servers traditionally squash to.
const NOBODY: u32 = 65534;

/// Ports from here on can be bound by any user of a machine.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;

/// Rules of an export. The default is read and write for every client, with root squashed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is an option of its own
pub struct ExportRules {
    /// Clients that may use the export. Of several networks that hold an address the longest prefix counts. Any client if empty.
    pub clients: Vec<ClientRule>,
    /// No client may write, whatever `clients` says.
    pub read_only: bool,
    /// Clients must call from a port below 1024, which on most machines takes root.
    pub secure_ports: bool,
    /// Users that become the anonymous user.
    pub squash: Squash,
    /// User of squashed callers, and of those without a credential.
    pub anonuid: u32,
    /// Group of squashed callers, and of those without a credential.
    pub anongid: u32,
    /// Files may be given set-user-ID and set-group-ID; otherwise both bits are ignored.
    pub suid: bool,
    /// Root may make device files; otherwise MKNOD refuses them.
    pub dev: bool,
}

/// Clients that may use an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRule {
    /// Their addresses.
    pub network: Network,
    /// They may only read.
    pub read_only: bool,
}

/// Users whose calls are executed as the anonymous user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// Root alone; and its group, wherever a caller states that.
    #[default]
    Root,
    /// Everybody.
    All,
    /// Nobody: whoever states that it is root has root's rights.
    None,
}

/// A range of addresses: `10.1.0.0/16`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// The use that the rules allow a client to make of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAccess {
    Refused,
    ReadOnly,
    ReadWrite,
}

/// Why a call is refused before its procedure begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client may not use the export.
    Client,
    /// The client may only read.
    ReadOnly,
}

impl Refusal {
    /// The status of NFS version 3 for it.
    pub(crate) fn status3(self) -> nfsstat3 {
        match self {
            Self::Client => nfsstat3::NFS3ERR_ACCES,
            Self::ReadOnly => nfsstat3::NFS3ERR_ROFS,
        }
    }
}

impl Default for ExportRules {
    fn default() -> Self {
        Self {
            clients: Vec::new(),
            read_only: false,
            secure_ports: false,
            squash: Squash::Root,
            anonuid: NOBODY,
            anongid: NOBODY,
            suid: false,
            dev: false,
        }
    }
}

impl ExportRules {
    /// True if clients of this address may use the export at all.
    pub(crate) fn admits_address(&self, address: IpAddr) -> bool {
        self.clients.is_empty() || self.rule_of(address).is_some()
    }

    /// The use that a client may make of the export.
    pub(crate) fn access(&self, address: IpAddr, port: u16) -> ClientAccess {
        let is_read_only = match self.rule_of(address) {
            Some(rule) => rule.read_only,
            None if self.clients.is_empty() => false,
            None => return ClientAccess::Refused,
        };
        match () {
            () if self.secure_ports && port >= UNPRIVILEGED_PORT_MIN => ClientAccess::Refused,
            () if self.read_only || is_read_only => ClientAccess::ReadOnly,
            () => ClientAccess::ReadWrite,
        }
    }

    /// The rule for an address: the one with the longest prefix, and of equal ones the first.
    fn rule_of(&self, address: IpAddr) -> Option<&ClientRule> {
        let holding = self.clients.iter().filter(|rule| rule.network.contains(address));
        holding.min_by_key(|rule| u8::MAX - rule.network.prefix_bits)
    }

    /// The caller that a client's statement stands for here; `None` states nobody.
    pub(crate) fn caller(&self, stated: Option<&Caller>, access: ClientAccess) -> Caller {
        let (uid, gid) = (self.anonuid, self.anongid);
        let mut caller = match (stated, self.squash) {
            (Some(stated), Squash::None) => *stated,
            (Some(stated), Squash::Root) => stated.without_root(uid, gid),
            (None, _) | (_, Squash::All) => Caller::new(uid, gid),
        };
        caller.rights = Rights { read_only: access != ClientAccess::ReadWrite, suid: self.suid, dev: self.dev };
        caller
    }
}

impl ClientAccess {
    /// Fails unless a client may use the export in this way.
    #[inline]
    pub(crate) fn check(self, is_change: bool) -> Result<(), Refusal> {
        match self {
            Self::ReadWrite => Ok(()),
            Self::ReadOnly if !is_change => Ok(()),
            Self::ReadOnly => Err(Refusal::ReadOnly),
            Self::Refused => Err(Refusal::Client),
        }
    }
}

impl Network {
    /// The network of the addresses that share the first `prefix_bits` bits with `address`; `None` if an address has fewer bits.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        let address = address.to_canonical();
        (prefix_bits <= address_bits(address)).then_some(Self { address, prefix_bits })
    }

    /// True if an address is in the network. An IPv4 address that was mapped to IPv6 is its IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(32 - u32::from(self.prefix_bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(128 - u32::from(self.prefix_bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.address)?;
        if self.prefix_bits < address_bits(self.address) { write!(out, "/{}", self.prefix_bits) } else { Ok(()) }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let wrong = || format!("'{text}' is neither an address nor a network, as 10.1.0.0/16 or fd00::/8");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix_bits = prefix.map_or(Ok(address_bits(address)), str::parse).map_err(|_| wrong())?;
        Self::new(address, prefix_bits).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn allowing(clients: &[(&str, bool)]) -> ExportRules {
        let rule = |&(text, read_only): &(&str, bool)| ClientRule { network: network(text), read_only };
        ExportRules { clients: clients.iter().map(rule).collect(), ..ExportRules::default() }
    }

    #[test]
    fn networks_hold_the_addresses_of_their_prefix() {
        let cases = [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.2.3/16", "10.1.0.9", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.9.9.9", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "fe80::1", true),
            ("::1", "::1", true),
        ];
        for (net, of, held) in cases {
            assert_eq!(network(net).contains(address(of)), held, "{of} in {net}");
        }
    }

    #[test]
    fn networks_are_written_as_they_are_read() {
        for text in ["10.1.0.0/16", "10.1.2.3", "fd00::/8", "::1", "0.0.0.0/0"] {
            assert_eq!(network(text).to_string(), text);
        }
        assert_eq!(network("10.1.2.3/32").to_string(), "10.1.2.3");
        for text in ["", "10.1.0.0/33", "10.1.0/16", "10.1.0.0/-1", "10.1.0.0/", "::/129", "host", "10.1.0.0/8/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn without_rules_for_clients_every_client_may_write() {
        let rules = ExportRules::default();
        assert!(rules.admits_address(address("8.8.8.8")));
        assert_eq!(rules.access(address("8.8.8.8"), 40_000), ClientAccess::ReadWrite);
    }

    #[test]
    fn the_longest_prefix_counts() {
        let rules = allowing(&[("10.0.0.0/8", true), ("10.1.0.0/16", false), ("10.1.2.3", true), ("::1", false)]);
        let access = |of: &str| rules.access(address(of), 700);
        assert_eq!(access("10.9.0.1"), ClientAccess::ReadOnly);
        assert_eq!(access("10.1.0.1"), ClientAccess::ReadWrite);
        assert_eq!(access("10.1.2.3"), ClientAccess::ReadOnly);
        assert_eq!(access("127.0.0.1"), ClientAccess::Refused);
        assert_eq!((rules.admits_address(address("::1")), rules.admits_address(address("::2"))), (true, false));
    }

    #[test]
    fn a_read_only_export_is_so_for_all() {
        let rules = ExportRules { read_only: true, ..allowing(&[("10.0.0.0/8", false)]) };
        assert_eq!(rules.access(address("10.0.0.1"), 700), ClientAccess::ReadOnly);
        assert_eq!(rules.access(address("11.0.0.1"), 700), ClientAccess::Refused);
        assert_eq!(ClientAccess::ReadOnly.check(false), Ok(()));
        assert_eq!(ClientAccess::ReadOnly.check(true), Err(Refusal::ReadOnly));
        assert_eq!(ClientAccess::Refused.check(false), Err(Refusal::Client));
    }

    #[test]
    fn secure_ports_are_below_1024() {
        let rules = ExportRules { secure_ports: true, ..ExportRules::default() };
        let access = |port| rules.access(address("127.0.0.1"), port);
        assert_eq!((access(1023), access(1024)), (ClientAccess::ReadWrite, ClientAccess::Refused));
        assert!(rules.admits_address(address("127.0.0.1")), "its next connection may come from another port");
    }

    #[test]
    fn squashing_follows_exports_5() {
        let stated = Caller::new(0, 0).with_groups(&[5, 0]);
        let caller = |squash, stated: Option<&Caller>| {
            let rules = ExportRules { squash, anonuid: 77, anongid: 78, ..ExportRules::default() };
            rules.caller(stated, ClientAccess::ReadWrite)
        };
        assert_eq!(caller(Squash::None, Some(&stated)), stated);
        assert_eq!(caller(Squash::Root, Some(&stated)), Caller::new(77, 78).with_groups(&[5]));
        assert_eq!(caller(Squash::All, Some(&stated)), Caller::new(77, 78));
        assert_eq!(caller(Squash::None, None), Caller::new(77, 78));
        // Root's group goes alone, too; other users stay.
        let user = Caller::new(10, 0).with_groups(&[100]);
        assert_eq!(caller(Squash::Root, Some(&user)), Caller::new(10, 78).with_groups(&[100]));
        assert!(!caller(Squash::Root, Some(&user)).is_in(0));
    }

    #[test]
    fn rights_beyond_reading_and_writing_are_given_by_name() {
        let rights = |rules: &ExportRules, access| rules.caller(None, access).rights;
        let given = |read_only, suid, dev| Rights { read_only, suid, dev };
        let none = ExportRules::default();
        assert_eq!(rights(&none, ClientAccess::ReadWrite), given(false, false, false));
        assert_eq!(rights(&none, ClientAccess::ReadOnly), given(true, false, false));
        let both = ExportRules { suid: true, dev: true, ..none };
        assert_eq!(rights(&both, ClientAccess::ReadWrite), given(false, true, true));
    }
}

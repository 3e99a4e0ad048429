// Package connection decides which addresses a connection may lead to, and says why one that failed did. It
// rests on package policy for the names of causes, and on no other of this module's but for texts.
package connection

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A mirror set can name any host, and its author need not be the administrator of
// the network the guard runs in. So the guard does not lend its place in that
// network: addresses that mean something only from here are never dialled. Private
// addresses (RFC 1918, fc00::/7) stay allowed: that is where mirrors live.

// An addressError is the refusal to dial an address.
type addressError struct {
	address string
	kind    string
}

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is %s, which is never asked", e.address, e.kind)
}

// metadataAddresses are those at which clouds hand out the credentials of the machine,
// except for link-local ones.
var metadataAddresses = map[netip.Addr]bool{
	netip.MustParseAddr("fd00:ec2::254"):   true, // AWS
	netip.MustParseAddr("fd20:ce::254"):    true, // Google Cloud
	netip.MustParseAddr("100.100.100.200"): true, // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"):   true, // Azure
	netip.MustParseAddr("192.0.0.192"):     true, // Oracle Cloud
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")
	// Prefixes that carry an IPv4 address, and the byte at which it starts.
	embedding = map[netip.Prefix]int{
		netip.MustParsePrefix("64:ff9b::/96"):   12, // NAT64, RFC 6052
		netip.MustParsePrefix("64:ff9b:1::/48"): 12, // NAT64 of the local network, RFC 8215
		netip.MustParsePrefix("::/96"):          12, // "IPv4-compatible", RFC 4291 2.5.5.1
		netip.MustParsePrefix("2002::/16"):      2,  // 6to4, RFC 3056
	}
)

// CheckAddress returns an error if addr must not be dialled. Loopback is dialled only if
// the operator says so.
func CheckAddress(addr netip.Addr, allowLoopback bool) error {
	addr = addr.Unmap().WithZone("")
	if kind := kindOf(addr, allowLoopback); kind != "" {
		return &addressError{address: addr.String(), kind: kind}
	}
	if inner, ok := embeddedIPv4(addr); ok {
		if kind := kindOf(inner, allowLoopback); kind != "" {
			return &addressError{address: addr.String(), kind: kind}
		}
	}
	return nil
}

// kindOf returns the kind of a forbidden address, "" if addr is allowed.
func kindOf(addr netip.Addr, allowLoopback bool) string {
	switch {
	case addr.IsLoopback():
		if allowLoopback {
			return ""
		}
		return "a loopback address"
	case addr.IsUnspecified(), addr.Is4() && thisNetwork.Contains(addr):
		return "an unspecified address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast(), addr == broadcast:
		return "a multicast address"
	case metadataAddresses[addr]:
		return "a cloud metadata address"
	default:
		return ""
	}
}

func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	bytes := addr.As16()
	for prefix, at := range embedding {
		if prefix.Contains(addr) {
			return netip.AddrFrom4([4]byte(bytes[at : at+4])), true
		}
	}
	return netip.Addr{}, false
}

// CheckHost refuses a host that spells a forbidden address, so that neither a resolver nor
// a proxy is asked about it. Names that resolve to such an address are refused when it is
// dialled.
func CheckHost(host string, allowLoopback bool) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		if allowLoopback {
			return nil
		}
		return &addressError{address: host, kind: "a loopback name"} // RFC 6761, 6.3
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return CheckAddress(addr, allowLoopback)
	}
	if addr, ok := parseLegacyIPv4(host); ok {
		return CheckAddress(addr, allowLoopback)
	}
	return nil
}

// parseLegacyIPv4 reads the spellings that inet_aton(3) accepts and netip does
// not: one to four numbers, each decimal, octal (0177) or hexadecimal (0x7f); the last one fills the
// remaining bytes. A C resolver or a proxy would.
func parseLegacyIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 64) // base 0: the prefixes of C
		if err != nil || strings.Contains(part, "_") {
			return netip.Addr{}, false
		}
		last := i == len(parts)-1
		if !last && n > 0xff || last && n >= 1<<(8*(5-len(parts))) {
			return netip.Addr{}, false
		}
		if last {
			value |= n
			break
		}
		value |= n << (8 * (3 - i))
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(value))
	return netip.AddrFrom4(b), true
}

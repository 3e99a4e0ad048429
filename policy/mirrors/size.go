package mirrors

import (
	"encoding/base64"
	"fmt"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// MaxEncoded is how many bytes a configuration may take in MachineConfig
// 99-<pool>-generated-registries, as MCO encodes it.
//
// MCO merges that MachineConfig with all others of a pool, and the result must not exceed 1,572,864
// bytes (MaxMachineConfigSize in its pkg/controller/common, etcd's own limit for a request): above it
// the pool degrades, and no MachineConfig at all reaches its nodes. How much the others take is not
// known here. The templates for a control plane node come to 276 kB before they are encoded, 368 kB at
// most afterwards (templates/master and templates/common at 7ff337a4), so 512 KiB for those and for
// what an administrator adds is not generous.
const MaxEncoded = 1 << 20

// tooLarge says by how much files of a size exceed MaxEncoded.
func tooLarge(size int) []Reason {
	if size <= MaxEncoded {
		return nil
	}
	reason := newReason(TooLarge, "", fmt.Sprintf(
		"the files for nodes take %d KiB of each pool's rendered MachineConfig, more than the %d KiB that leave room for the rest of it (1536 KiB in all)", (size+1023)>>10, MaxEncoded>>10))
	reason.Amount = size
	return []Reason{reason}
}

// encodedSize returns the length of the files that MCO makes (registriesConfigIgnition), each as a
// data URL in base64 (NewIgnFileBytes there, vincent-petithory/dataurl.EncodeBytes), given the length of registries.conf,
// the search registries and the files of policies.
func encodedSize(conf int, search []string, policies map[string][]byte) int {
	const overhead = 200 // path, mode and the head of the URL
	sizes := []int{conf, 64 * len(search)}
	for _, file := range policies {
		sizes = append(sizes, len(file))
	}
	total := 0
	for _, n := range sizes {
		if n > 0 {
			total += base64.StdEncoding.EncodedLen(n) + overhead
		}
	}
	return total
}

// encodedBound returns a length that conf does not exceed in MCO's encoding. To encode it
// would take half of the time of working out a table.
func encodedBound(conf sysregistriesv2.V2RegistriesConf) int {
	const keys = 256 // the names of a registry's or a mirror's keys, with everything that is not text
	total := keys
	for _, s := range conf.UnqualifiedSearchRegistries {
		total += quotedBound(s) + len(", ")
	}
	for _, r := range conf.Registries {
		total += keys + quotedBound(r.Prefix) + quotedBound(r.Location)
		for _, m := range r.Mirrors {
			total += keys + quotedBound(m.Location) + quotedBound(m.PullFromMirror)
		}
	}
	return total
}

// quotedBound returns a length that s does not exceed in TOML: every character may be
// written as an escape sequence.
func quotedBound(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return len(`""`) + len(`\U00000000`)*len(s)
		}
	}
	return len(`""`) + len(s)
}

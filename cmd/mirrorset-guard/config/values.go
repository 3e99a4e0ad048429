package config

import (
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// An enum is a text of which there are only a few.
type enum interface{ values() []string }

var modes = map[Mode]policy.Mode{"enforce": policy.ModeEnforce, "warn": policy.ModeWarn, "audit": policy.ModeAudit}

var severities = map[Severity]policy.Severity{"deny": policy.Deny, "warn": policy.Warn, "info": policy.Info}

var guesses = map[Guesses]policy.Guesses{"deny": policy.GuessesDeny, "warn": policy.GuessesWarn, "ignore": policy.GuessesIgnore}

var blobScopes = map[BlobScope]policy.BlobScope{"all": policy.BlobsOfAll, "protected": policy.BlobsOfProtected, "none": policy.BlobsOfNone}

var depths = map[Depth]mirrors.Depth{"manifest": mirrors.DepthManifest, "blobs": mirrors.DepthBlobs}

var auditDestinations = map[AuditDestination]auditlog.Destination{"none": auditlog.Nowhere, "stdout": auditlog.Stdout, "file": auditlog.File}

func (Mode) values() []string             { return []string{"enforce", "warn", "audit"} }
func (Severity) values() []string         { return []string{"deny", "warn", "info"} }
func (NamespaceLimit) values() []string   { return []string{"deny", "warn"} }
func (Guesses) values() []string          { return []string{"deny", "warn", "ignore"} }
func (BlobScope) values() []string        { return []string{"all", "protected", "none"} }
func (Depth) values() []string            { return []string{"manifest", "blobs"} }
func (AuditDestination) values() []string { return []string{"none", "stdout", "file"} }

// String returns d without units that are zero: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxProblems bounds the lines about one value; a bundle can hold a thousand
// certificates.
const maxProblems = 5

// blockStart begins each PEM block, good or bad.
var blockStart = []byte("-----BEGIN ")

// parseBundle returns the certificates in a PEM bundle that nodes would use, and a line for
// each block that they would not, by its position from 1 on. Nodes skip bad ones silently
// (crypto/x509, AppendCertsFromPEM). An empty bundle is valid: operators create bundles
// first and fill them later.
func parseBundle(bundle []byte) (certificates []*x509.Certificate, problems []string) {
	total := bytes.Count(bundle, blockStart)
	position := 0
	skip := func(blocks int, what string) {
		for range blocks {
			position++
			problems = append(problems, fmt.Sprintf("block %d of %d %s", position, total, what))
		}
	}
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		skip(bytes.Count(bundle[:len(bundle)-len(rest)], blockStart)-1, undecodable)
		bundle = rest
		c, what := parseBlock(block)
		if c == nil {
			skip(1, what)
			continue
		}
		position++
		certificates = append(certificates, c)
	}
	skip(total-position, undecodable)
	if total == 0 && len(bytes.TrimSpace(bundle)) > 0 {
		problems = append(problems, "no PEM certificate in it")
	}
	return certificates, firstOf(problems)
}

// undecodable describes a block that pem.Decode passes over.
const undecodable = "is not a complete PEM block on lines of its own"

// parseBlock returns the certificate in a block, or the fault of the block.
func parseBlock(block *pem.Block) (*x509.Certificate, string) {
	if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
		return nil, "is not a plain CERTIFICATE"
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, "is not a certificate that can be read"
	}
	return c, ""
}

func firstOf(problems []string) []string {
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Sprintf("%d more blocks cannot be used", more))
	}
	return problems
}

// valueOf returns the value of a key as the machine-config-operator reads it: a text may be
// encoded in base64 once more (pkg/operator/sync.go, getImageRegistryBundles).
func valueOf(cm *corev1.ConfigMap, key string) (value []byte, ok bool) {
	if value, ok := cm.BinaryData[key]; ok {
		return value, true
	}
	text, ok := cm.Data[key]
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
		return decoded, ok
	}
	return []byte(text), ok
}

// keysOf returns the keys in order. The API server ensures that Data and BinaryData have
// none in common.
func keysOf(cm *corev1.ConfigMap) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(cm.Data)), maps.Keys(cm.BinaryData))
	slices.Sort(keys)
	return keys
}

// hostOf returns the registry that a key stands for. A key cannot hold a colon
// (pkg/daemon/certificate_writer.go).
func hostOf(key string) string { return strings.ReplaceAll(key, "..", ":") }

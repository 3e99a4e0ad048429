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

// parseBundle returns the certificates in a PEM bundle that nodes would use, and a
// line for each block that they would not, by its position from 1 on. Nodes skip bad
// ones without a word (crypto/x509, AppendCertsFromPEM). An empty bundle is a good
// one: operators create them first and fill them later.
func parseBundle(bundle []byte) (certificates []*x509.Certificate, problems []string) {
	blocks := blocksOf(bundle)
	for i, block := range blocks {
		c, what := parseBlock(block)
		if c != nil {
			certificates = append(certificates, c)
			continue
		}
		problems = append(problems, fmt.Sprintf("block %d of %d %s", i+1, len(blocks), what))
	}
	if len(blocks) == 0 && len(bytes.TrimSpace(bundle)) > 0 {
		problems = append(problems, "no PEM certificate in it")
	}
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Sprintf("%d more blocks cannot be used", more))
	}
	return certificates, problems
}

// blocksOf cuts a bundle before each block, so that one that cannot be decoded keeps
// its place in the count. Text before the first block is left out.
func blocksOf(bundle []byte) [][]byte {
	var blocks [][]byte
	for _, rest := range bytes.Split(bundle, blockStart)[1:] {
		blocks = append(blocks, append(bytes.Clone(blockStart), rest...))
	}
	return blocks
}

// parseBlock returns the certificate in a block, or what is wrong with it.
func parseBlock(data []byte) (*x509.Certificate, string) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, "is no PEM, which has to be copied whole"
	}
	if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
		return nil, "is not a plain CERTIFICATE"
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, "is no certificate that can be read"
	}
	return c, ""
}

// valueOf returns the value of a key as the machine-config-operator reads it: a text
// may be in base64 once more (pkg/operator/sync.go, getImageRegistryBundles).
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

// keysOf returns the keys in order. The API server sees to it that Data and
// BinaryData have none in common.
func keysOf(cm *corev1.ConfigMap) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for key := range maps.Keys(cm.Data) {
			if !yield(key) {
				return
			}
		}
		for key := range maps.Keys(cm.BinaryData) {
			if !yield(key) {
				return
			}
		}
	})
}

// hostOf returns the registry that a key stands for. A key cannot hold a colon
// (pkg/daemon/certificate_writer.go).
func hostOf(key string) string { return strings.ReplaceAll(key, "..", ":") }

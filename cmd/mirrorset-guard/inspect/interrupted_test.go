package inspect

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestInterrupted: what was not asked by Ctrl-C is no reason for an answer: none is printed, none is written to files, and the
// exit code is 2, whatever the mode.
func TestInterrupted(t *testing.T) {
	for name, args := range map[string][]string{
		"check":         {"check", "-f", "CHANGE", "-o", "table", "-o", "junit=REPORT"},
		"check in warn": {"check", "-f", "CHANGE", "--config", "CONFIG"},
		"narrowed":      {"check", "-f", "CHANGE", "-o", "narrowed"},
		"plan":          {"plan", "-f", "CHANGE"},
		"deletes":       {"deletion", "HOST/shop/cart:v1"},
		"explain":       {"explain", "quay.io/shop/cart:v1", "--probe"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			front := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-r.Context().Done() // the client has left
			}))
			defer front.Close()
			host := strings.TrimPrefix(front.URL, "http://")
			folder := t.TempDir()
			sets := strings.ReplaceAll(`---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec:
  imageTagMirrors:
  - {source: quay.io/shop, mirrors: [HOST/shop, HOST/second], mirrorSourcePolicy: NeverContactSource}
`, "HOST", host)
			dump := `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart}
spec: {containers: [{name: app, image: quay.io/shop/cart:v1}]}
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {registrySources: {insecureRegistries: [` + host + `]}}
`
			if name == "deletes" || name == "explain" {
				dump += sets
			}
			report := filepath.Join(folder, "report.xml")
			words := strings.NewReplacer(
				"HOST", host, "REPORT", report, "CHANGE", clitest.Written(t, "change.yaml", sets),
				"CONFIG", clitest.Written(t, "config.yaml", clitest.ConfigHeader+"mode: warn\n"))
			var all []string
			for _, a := range args {
				all = append(all, words.Replace(a))
			}
			all = append(all, "--from", clitest.Written(t, "cluster.yaml", dump), "--allow-loopback")
			var out, err bytes.Buffer
			code := run(ctx, all, strings.NewReader(""), &out, &err)
			if want := "interrupted; there is no answer"; code != 2 || !strings.Contains(err.String(), want) || out.Len() > 0 {
				t.Errorf("exit code %d, want 2, %q, and nothing on standard output\n%s%s", code, want, out.String(), err.String())
			}
			if _, err := os.Stat(report); !errors.Is(err, os.ErrNotExist) {
				t.Error("a report is written")
			}
		})
	}
}

package transfer

import (
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
)

// TestSaysCache has the words of products, from their code, and those of registries that take uploads at other times.
func TestSaysCache(t *testing.T) {
	for body, want := range map[string]bool{
		`{"errors":[{"code":"DENIED","message":"can not push artifact to a proxy project: quay-proxy"}]}`:                                                                 true,
		`{"errors":[{"code":"DENIED","message":"Deploying to groups is a PRO-licensed feature. See https://links.sonatype.com/product-nexus-repository","detail":null}]}`: true,
		`{"errors":[{"code":"UNSUPPORTED","message":"The operation is unsupported."}]}`:                                                                                   true,
		`{"errors":[{"code":"UNSUPPORTED","message":"the registry is read-only"}]}`:                                                                                       false,
		`{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}`:                                                                           false,
		`{"errors":[]}`:          false,
		`405 method not allowed`: false,
	} {
		if got := saysCache(wire.Response{Status: 405, Body: []byte(body)}); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

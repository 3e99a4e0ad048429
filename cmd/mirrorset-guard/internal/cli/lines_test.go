package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrapped(t *testing.T) {
	tests := []struct {
		name, text string
		width      int
		want       []string
	}{
		{"short", "a b", 10, []string{"a b"}},
		{"at a space", "aaa bbb ccc", 8, []string{"aaa bbb", "  ccc"}},
		{"within a reference", "registry.example.com/team/app:v1", 24, []string{"registry.example.com", "  /team/app:v1"}},
		{"without a good place", "aaaaaaaaaaaa", 8, []string{"aaaaaaaa", "  aaaa"}},
		{"never within a character", "aaaaaaaé", 8, []string{"aaaaaaa", "  é"}},
		{"nothing", "", 8, []string{""}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Wrapped(tt.text, tt.width)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

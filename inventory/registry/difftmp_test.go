package registry

import (
	"encoding/base64"
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/docker/config"
	"github.com/containers/image/v5/types"
)

func TestDiffTmp(t *testing.T) {
	keys := []string{"h.io", "h.io/a", "h.io/a/b", "h.io/a/b/c", "h.io:5000", "h.io:5000/a", "https://h.io/v2/", "http://h.io", "docker.io", "index.docker.io", "registry-1.docker.io", "https://index.docker.io/v1/", "docker.io/library", "docker.io/library/nginx", "h.io/v1/", "x.h.io", "https://docker.io", "index.docker.io/v1/"}
	names := []string{"h.io/a/b/c", "h.io/a/x", "h.io:5000/a/b", "nginx", "docker.io/x/y", "x.h.io/a", "index.docker.io/a/b", "registry-1.docker.io/a/b", "h.io/ab"}
	path := filepath.Join(t.TempDir(), "auth.json")
	for i := 0; i < 3000; i++ {
		auths := map[string]any{}
		for _, k := range keys {
			if rand.Intn(5) == 0 {
				v := base64.StdEncoding.EncodeToString([]byte("u:" + k))
				switch rand.Intn(12) {
				case 0:
					v = "%%"
				case 1:
					v = base64.StdEncoding.EncodeToString([]byte("nocolon"))
				case 2:
					v = ""
				}
				auths[k] = map[string]string{"auth": v}
			}
		}
		data, _ := json.Marshal(map[string]any{"auths": auths})
		os.WriteFile(path, data, 0o600)
		c, _ := ParseCredentials(data)
		for _, n := range names {
			ref, err := reference.ParseNormalizedNamed(n)
			if err != nil {
				t.Fatal(err)
			}
			want, err := config.GetCredentialsForRef(&types.SystemContext{AuthFilePath: path}, ref)
			got, _ := c.lookup(ref.Name())
			if (err != nil) != (got.broken != "") || err == nil && (got.password != want.Password || got.username != want.Username) {
				// several normalised keys: a node takes any
				t.Logf("%s %s: got %q %q want %q err %v", data, n, got.password, got.broken, want.Password, err)
			}
		}
	}
}

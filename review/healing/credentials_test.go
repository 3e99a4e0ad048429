package healing

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
)

// canary is the password to push with.
const canary = "canary-4711"

func encoded(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// login returns the header that a user sends.
func login(user, password string) string { return "Basic " + encoded(user, password) }

// The accounts at the mirror, as htpasswd has them: bcrypt of canary, and of another password.
const (
	account      = "pusher:$2a$04$dZKOHkojPxmol5UkyIRFzeYghuhYg7n7uX27j.1KaOM1ocGyR2qk2"
	otherAccount = "pusher:$2a$04$OKCwWbVAPKtoJmVAPTGtveUBeKvNE0igtQ9DxJF2YxKOIXCS8Ddba"
	otherLogin   = "another"
)

// wantLogin has registries that start from now on want a login.
func wantLogin(t *testing.T, account string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(file, []byte(account+"\n"), 0o600))
	for variable, value := range map[string]string{"REGISTRY_AUTH": "htpasswd", "REGISTRY_AUTH_HTPASSWD_REALM": "mirror", "REGISTRY_AUTH_HTPASSWD_PATH": file} {
		t.Setenv(variable, value)
	}
}

// TestCredentials: the credentials to push with are shown to the registry that they are for and to no other, also where
// that redirects, and are in nothing that the guard says.
func TestCredentials(t *testing.T) {
	for name, tt := range map[string]struct {
		account, password string
		redirects         bool
		says              string // "" for that it is copied back
	}{
		"taken":      {account, canary, false, ""},
		"refused":    {otherAccount, otherLogin, false, "answers 401 to the credentials for pushing"},
		"redirected": {account, canary, true, " redirects to "},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere := newServer(t)
			s := newStage(t, 0)
			wantLogin(t, tt.account)
			s.moveMirror(newServer(t))
			s.mirror.login = login("pusher", tt.password)
			var err error
			s.pushWith, err = registry.ParseCredentials(fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, s.mirror.host, encoded("pusher", canary)))
			must(t, err)
			s.add(t, "app")
			h := s.process(t)
			s.remove(t, "app")
			if tt.redirects {
				s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodGet || r.Method == http.MethodHead {
						return false
					}
					http.Redirect(w, r, "http://"+elsewhere.host+"/v2/nothing/manifests/x", http.StatusTemporaryRedirect)
					return true
				})
			}
			h.round(t)
			if s.has(t, "app") != (tt.says == "") {
				t.Errorf("the mirror has it: %v", tt.says != "")
			}
			if !s.mirror.shown[login("pusher", canary)] {
				t.Error("the mirror was not shown the credentials for it")
			}
			for _, at := range []*server{s.source, elsewhere} {
				if delete(at.shown, ""); len(at.shown) != 0 {
					t.Errorf("another host was shown %v", at.shown)
				}
			}
			if len(s.records) != 1 || len(s.told) != 1 || !strings.Contains(s.told[0].Note, tt.says) {
				t.Errorf("recorded %+v, told %+v", s.records, s.told)
			}
			families, err := h.metrics.Gather()
			must(t, err)
			lease, err := s.kube.CoordinationV1().Leases("guard").Get(t.Context(), LeaseName, metav1.GetOptions{})
			must(t, err)
			said := fmt.Sprintf("%+v %+v %q %v %v", s.told, s.records, s.logged, families, lease)
			if strings.Contains(said, canary) || strings.Contains(said, encoded("pusher", canary)) {
				t.Errorf("the credentials are in what was said: %s", said)
			}
		})
	}
}

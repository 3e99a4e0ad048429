package sync

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/docker/config"
	"github.com/containers/image/v5/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// pushCredentials returns those of --push-secret or, without it, what podman, docker and their helpers have for
// the repositories that are pushed to.
func (s *syncing) pushCredentials(copies []policy.Copy) (pullsecret.Credentials, error) {
	if s.pushSecret != "" {
		data, err := os.ReadFile(s.pushSecret)
		if err != nil {
			return pullsecret.Credentials{}, fmt.Errorf("--push-secret: %w", err)
		}
		credentials, err := pullsecret.Parse(data)
		if err != nil {
			return credentials, fmt.Errorf("--push-secret %s: %w", s.pushSecret, err)
		}
		for _, problem := range credentials.Problems() {
			fmt.Fprintf(s.streams.Err, "mirrorset-guard: --push-secret: %s\n", problem)
		}
		return credentials, nil
	}
	return s.loggedIn(copies)
}

// An auth is an entry of a .dockerconfigjson.
type auth struct {
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken,omitempty"`
}

// loggedIn asks podman's and docker's files and helpers, once for each repository, as a helper may be for one alone.
func (s *syncing) loggedIn(copies []policy.Copy) (pullsecret.Credentials, error) {
	from := &types.SystemContext{AuthFilePath: os.Getenv("REGISTRY_AUTH_FILE")} // the library itself knows docker's DOCKER_CONFIG, but not podman's
	auths := map[string]auth{}
	asked := map[string]bool{}
	for _, c := range copies {
		to, err := reference.ParseNormalizedNamed(c.To.Ref)
		if err != nil || asked[to.Name()] {
			continue // the copy fails for it
		}
		asked[to.Name()] = true
		found, err := config.GetCredentialsForRef(from, to)
		if err != nil {
			fmt.Fprintf(s.streams.Err, "mirrorset-guard: the credentials for %s could not be read: %s\n", to.Name(), text.OneLine(err.Error(), maxReason))
			continue
		}
		if found.Username != "" || found.IdentityToken != "" {
			auths[to.Name()] = auth{base64.StdEncoding.EncodeToString([]byte(found.Username + ":" + found.Password)), found.IdentityToken}
		}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return pullsecret.Credentials{}, err
	}
	credentials, err := pullsecret.Parse(data)
	if errors.Is(err, pullsecret.ErrNoEntries) {
		err = nil // mirrors may take what anybody pushes
	}
	return credentials, err
}

const maxReason = 200

package text

import "testing"

func TestWithoutCredentials(t *testing.T) {
	const digest = "sha256:4ece15e6af5425f06870367757777d4b5e30f575f549aceca8b8a9f39416c252"
	for _, tt := range []struct{ reason, s, want string }{
		{"nothing", "quay.io/shop/cart:v1", "quay.io/shop/cart:v1"},
		{"a URL", "https://user:hunter2@quay.io/shop", "https://***@quay.io/shop"},
		{"no scheme", "user:hunter2@quay.io/shop", "***@quay.io/shop"},
		{"no name, as tokens are written, with an @", "https://:hunter@2@quay.io", "https://***@quay.io"},
		{"within a sentence", `the entry "user:hunter2@quay.io" does nothing`, `the entry "***@quay.io" does nothing`},
		{"twice, and a token alone", "a:b@c https://token@f", "***@c https://***@f"},
		{"a password with a colon", "a:b:c@quay.io", "***@quay.io"},
		{"a digest", "quay.io/shop/cart@" + digest, "quay.io/shop/cart@" + digest},
		{"a tag and a digest", "quay.io/shop/cart:v1@" + digest, "quay.io/shop/cart:v1@" + digest},
		{"a short name with both, as skopeo writes it", "docker://cart:v1@" + digest, "docker://cart:v1@" + digest},
		{"a digest that is cut", "cart:v1@" + ShortDigest(digest), "cart:v1@" + ShortDigest(digest)},
		{"both kinds", "cart:v1@" + digest + " and a:b@c", "cart:v1@" + digest + " and ***@c"},
		{"an address", "alice@example.com", "alice@example.com"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			if got := WithoutCredentials(tt.s); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

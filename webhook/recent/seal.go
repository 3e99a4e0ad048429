package recent

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// Seals tell the entries of replicas from those of others who may write the list. They are made with a secret that
// only the replicas have. Nil is for a process without one, which takes entries for what they say.
//
// Replicas may get another secret at different times, and one that starts knows the new one alone. So entries are sealed
// with both until all have the new one, and the one before counts as long as no third has come.
type Seals struct {
	now func() []byte

	mu    sync.Mutex
	known [][]byte // the newest last
	since time.Time
}

const (
	// secretArrives is for how long a new secret may not have come to other replicas: the kubelet looks for one
	// every minute or so.
	secretArrives = 10 * time.Minute
	// sealField begins the last field of an entry, its seal.
	sealField = `,"seal":"`
)

// NewSeals returns Seals made with the secret that now returns, which counts from now on: another one may come before the first entry.
func NewSeals(now func() []byte) *Seals {
	s := &Seals{now: now}
	s.secrets()
	return s
}

// secrets returns those that count, and those for new entries.
func (s *Seals) secrets() (known, making [][]byte) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.known); n == 0 || !bytes.Equal(s.known[n-1], now) { // be it one that comes back
		s.known, s.since = append(s.known[max(0, n-1):], now), time.Now()
	}
	if len(s.known) == 2 && time.Since(s.since) < secretArrives {
		return s.known, s.known
	}
	return s.known, s.known[len(s.known)-1:]
}

// seal returns the JSON object of an entry with a seal.
func (s *Seals) seal(raw []byte) []byte {
	if s == nil {
		return raw
	}
	_, secrets := s.secrets()
	var seals [][]byte
	for _, secret := range secrets {
		seals = append(seals, sealOf(raw, secret))
	}
	return slices.Concat(raw[:len(raw)-1], []byte(sealField), bytes.Join(seals, []byte(" ")), []byte(`"}`))
}

// isSealed reports whether the JSON object of an entry has the seal of a replica.
func (s *Seals) isSealed(raw []byte) bool {
	if s == nil {
		return true
	}
	at := bytes.LastIndex(raw, []byte(sealField))
	if at < 0 {
		return false
	}
	entry := append(slices.Clone(raw[:at]), '}')
	seals, ended := bytes.CutSuffix(raw[at+len(sealField):], []byte(`"}`))
	secrets, _ := s.secrets()
	return ended && slices.ContainsFunc(secrets, func(secret []byte) bool {
		want := sealOf(entry, secret)
		return slices.ContainsFunc(bytes.Split(seals, []byte(" ")), func(seal []byte) bool { return hmac.Equal(seal, want) })
	})
}

func sealOf(entry, secret []byte) []byte {
	sum := hmac.New(sha256.New, secret)
	_, _ = sum.Write(entry) // never an error
	return hex.AppendEncode(nil, sum.Sum(nil))
}

package certs

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
)

var hosts = []string{"mirrorset-guard.mirrorset-guard.svc", "127.0.0.1", "::1"}

// folder returns a folder with a self-signed pair, and its CA.
func folder(t testing.TB) (dir string, ca []byte) {
	t.Helper()
	dir = t.TempDir()
	ca, err := certificates.SelfSigned(dir, hosts, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return dir, ca
}

func load(t testing.TB, dir string) *Reloader {
	t.Helper()
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pool(t testing.TB, cas ...[]byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	for _, ca := range cas {
		if !p.AppendCertsFromPEM(ca) {
			t.Fatalf("no certificate in %q", ca)
		}
	}
	return p
}

func copyFile(t testing.TB, from, to, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// pipe puts a named pipe in the place of a file, into which nobody writes.
func pipe(t testing.TB, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestLoadErrors(t *testing.T) {
	_, err := Load(t.TempDir())
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading the serving certificate: open ") {
		t.Errorf("without files: got %v", err)
	}
	dir, _ := folder(t)
	other, _ := folder(t)
	copyFile(t, other, dir, KeyFile)
	want := "reading the serving certificate: tls.crt and tls.key in " + dir + ": tls: private key does not match public key"
	if _, err := Load(dir); err == nil || err.Error() != want {
		t.Errorf("with another's key: got %v, want %s", err, want)
	}
}

// Whatever happens to the files, the pair in use stays until there is a better
// one.
func TestReloadKeepsThePair(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir, other string)
	}{
		{"the key is another's", func(t *testing.T, dir, other string) { copyFile(t, other, dir, KeyFile) }},
		{"the certificate is another's", func(t *testing.T, dir, other string) { copyFile(t, other, dir, CertFile) }},
		{"the certificate is empty", func(t *testing.T, dir, _ string) { write(t, dir, CertFile, "") }},
		{"the key is half written", func(t *testing.T, dir, _ string) {
			write(t, dir, KeyFile, "-----BEGIN PRIVATE KEY-----\nMIG")
		}},
		{"the certificate is a pipe", func(t *testing.T, dir, _ string) { pipe(t, dir, CertFile) }},
		{"the key is a pipe", func(t *testing.T, dir, _ string) { pipe(t, dir, KeyFile) }},
		{"the files are gone", func(t *testing.T, dir, _ string) {
			if err := errors.Join(os.Remove(filepath.Join(dir, CertFile)), os.Remove(filepath.Join(dir, KeyFile))); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := folder(t)
			other, _ := folder(t)
			r := load(t, dir)
			before := r.current()
			tc.spoil(t, dir, other)
			if changed, err := r.Reload(); changed || err == nil || r.Err() == nil {
				t.Errorf("got %t, %v and Err %v, want an error that stays", changed, err, r.Err())
			}
			if r.current() != before {
				t.Error("the pair in use was lost")
			}
			for _, name := range []string{CertFile, KeyFile} {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				copyFile(t, other, dir, name)
			}
			if changed, err := r.Reload(); !changed || err != nil || r.Err() != nil {
				t.Errorf("once repaired: got %t, %v and Err %v, want a change", changed, err, r.Err())
			}
			if r.current() == before {
				t.Error("the new pair is not in use")
			}
		})
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNotAfterFollowsTheFiles(t *testing.T) {
	dir, _ := folder(t)
	r := load(t, dir)
	if changed, err := r.Reload(); changed || err != nil {
		t.Errorf("with the same files: got %t, %v", changed, err)
	}
	if _, err := certificates.SelfSigned(dir, hosts, 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Reload(); !changed || err != nil {
		t.Fatalf("with new files: got %t, %v", changed, err)
	}
	if left := time.Until(r.NotAfter()); left < 47*time.Hour {
		t.Errorf("expires in %s, want 48h", left)
	}
}

func TestRunLogsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, _ := folder(t)
		other, _ := folder(t)
		r := load(t, dir)
		var lines []string
		log := funcr.New(func(_, args string) {
			line, _, _ := strings.Cut(args, ` "of"=`)
			lines = append(lines, line)
		}, funcr.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx, log)

		key, err := os.ReadFile(filepath.Join(dir, KeyFile))
		if err != nil {
			t.Fatal(err)
		}
		tick := func() { time.Sleep(15 * time.Second); synctest.Wait() }
		tick()
		write(t, dir, KeyFile, "")
		tick()
		write(t, dir, KeyFile, string(key))
		tick()
		copyFile(t, other, dir, CertFile)
		copyFile(t, other, dir, KeyFile)
		tick()
		want := []string{
			`"msg"="Kept what is in use, could not use new files" "error"="reading the serving certificate: tls.crt and tls.key in ` +
				dir + `: tls: failed to find any PEM data in key input"`,
			`"level"=0 "msg"="Files can be read again"`,
			`"level"=0 "msg"="Reloaded files"`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// The secret is swapped for another as fast as that goes, while clients connect
// and the files are reloaded all the time: no handshake fails, and each
// certificate is one of the pairs there are.
func TestRotationUnderLoad(t *testing.T) {
	const clients, handshakes = 4, 50
	secret, err := certificates.Mount(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names, cas := make([]string, 8), make([][]byte, 8)
	for i := range names {
		if names[i], cas[i], err = secret.Add(hosts, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := secret.Use(names[0]); err != nil {
		t.Fatal(err)
	}
	r := load(t, secret.Dir)
	address := listen(t, r.TLSConfig(nil))

	var stop atomic.Bool
	var rotation, load sync.WaitGroup
	rotation.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if err := secret.Use(names[i%len(names)]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var reloads atomic.Int32
	rotation.Go(func() {
		for !stop.Load() {
			// Swapped faster than it is read, a pair may not match in any attempt;
			// the one in use has to do meanwhile.
			if changed, _ := r.Reload(); changed {
				reloads.Add(1)
			}
		}
	})
	config := &tls.Config{RootCAs: pool(t, cas...), ServerName: hosts[0]}
	for range clients {
		load.Go(func() {
			for range handshakes {
				if err := shake(address, config); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	load.Wait()
	stop.Store(true)
	rotation.Wait()
	if _, err := r.Reload(); err != nil {
		t.Errorf("once the swapping has ended: %v", err)
	}
	t.Logf("%d reloads during %d handshakes", reloads.Load(), clients*handshakes)
	if reloads.Load() == 0 {
		t.Error("nothing was reloaded under load")
	}
}

// listen completes handshakes with config until the test ends.
func listen(t *testing.T, config *tls.Config) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _, _ = io.Copy(conn, conn); _ = conn.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

func shake(address string, config *tls.Config) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", address, config)
	if err != nil {
		return err
	}
	return conn.Close()
}

func TestTLSConfigRefusesOldVersions(t *testing.T) {
	dir, ca := folder(t)
	address := listen(t, load(t, dir).TLSConfig(nil))
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		err := shake(address, &tls.Config{
			RootCAs: pool(t, ca), ServerName: "127.0.0.1", MinVersion: version, MaxVersion: version,
		})
		if (err == nil) != ok {
			t.Errorf("%s: got %v", tls.VersionName(version), err)
		}
	}
}

// TestShared: replicas of every version make it of the private key, and of nothing that others know.
func TestShared(t *testing.T) {
	dir, _ := folder(t)
	key, err := os.ReadFile(filepath.Join(dir, KeyFile))
	sum := hmac.New(sha256.New, key)
	_, _ = io.WriteString(sum, "mirrorset-guard: what replicas share")
	if !bytes.Equal(load(t, dir).Shared(), sum.Sum(nil)) {
		t.Errorf("got another secret: %v", err)
	}
}

// TestClients: a certificate for clients by the CAs in the file makes a client, and no other does.
func TestClients(t *testing.T) {
	ours, others := t.TempDir(), t.TempDir()
	server, serverCA := folder(t)
	ca, err := certificates.Client(ours, "kube-apiserver", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificates.Client(others, "kube-apiserver", time.Hour); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(ours, "client-ca.crt")
	if err := os.WriteFile(file, slices.Concat(ca, serverCA), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadClients(file)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{ours: nil, others: ErrNoClientCertificate, server: ErrNoClientCertificate} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Verify(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}); !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if got := c.Verify(&tls.ConnectionState{}); !errors.Is(got, ErrNoClientCertificate) {
		t.Errorf("without a certificate: %v", got)
	}
}

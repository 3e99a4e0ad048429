package signer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A Case is an image with its signatures, and the requirement for them.
type Case struct {
	Root        string // one of Roots
	Reference   string
	Manifest    []byte
	Requirement signing.Requirement
	Signatures  []signing.Signature

	draws Draws
}

// Roots are the kinds of trust in the requirements of cases.
var Roots = []string{"key", "keys", "key and log", "fulcio", "pki"}

// Draws decide what a Case is like.
type Draws interface {
	// Has reports whether a case has a flaw, which so many per cent have if it is left to chance.
	Has(flaw string, percent int) bool
	// Pick chooses one of n. Where no flaw is picked, the image is accepted with the first one.
	Pick(what string, n int) int
}

func pick[T any](d Draws, what string, from ...T) T { return from[d.Pick(what, len(from))] }

// Signers hold the keys and authorities of cases.
type Signers struct {
	keys         []crypto.Signer
	rekor, other *ecdsa.PrivateKey
	fulcio, pki  issuing
	strange      issuing // which no case trusts
}

// An issuing is an authority that issues certificates.
type issuing struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	rootPEM  []byte
	chainPEM []byte
}

// must returns v. Keys and certificates of known types can be made.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// NewSigners makes keys, of each kind that nodes know, and authorities.
func NewSigners() *Signers {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	s := &Signers{rekor: newECDSA(), other: newECDSA(), fulcio: newIssuing(), pki: newIssuing(), strange: newIssuing()}
	s.keys = []crypto.Signer{newECDSA(), must(rsa.GenerateKey(rand.Reader, 2048)), must(edwards, err), must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))}
	return s
}

func newECDSA() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// newIssuing returns an authority below a root.
func newIssuing() issuing {
	rootKey, key := newECDSA(), newECDSA()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER := must(x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey))
	between := *root
	between.SerialNumber, between.Subject.CommonName, between.ExtKeyUsage = big.NewInt(2), "intermediate", []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	der := must(x509.CreateCertificate(rand.Reader, &between, root, key.Public(), rootKey))
	i := issuing{cert: must(x509.ParseCertificate(der)), key: key, rootPEM: encodePEM("CERTIFICATE", rootDER)}
	i.chainPEM = append(encodePEM("CERTIFICATE", der), i.rootPEM...)
	return i
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func publicPEM(key crypto.Signer) []byte {
	return encodePEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key.Public())))
}

// Case returns a case of a root; the number makes its image another one.
func (s *Signers) Case(root string, number int, d Draws) Case {
	c := Case{Root: root, draws: d}
	c.Manifest = fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"%s","size":2},"layers":[],"annotations":{"n":"%d"}}`, digest.FromString("{}"), number)
	c.Reference = pick(d, "tag or digest", "quay.example.com/team/app:v1", "quay.example.com/team/app@"+c.Digest())
	key := pick(d, "key", s.keys...)
	c.Requirement = s.requirement(&c, key)
	for range pick(d, "signatures", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 0) {
		c.Signatures = append(c.Signatures, s.sign(&c, key))
	}
	return c
}

// Digest returns that of the manifest.
func (c *Case) Digest() string { return digest.FromBytes(c.Manifest).String() }

func (s *Signers) requirement(c *Case, key crypto.Signer) signing.Requirement {
	r, d := signing.Requirement{Type: signing.SigstoreSigned}, c.draws
	switch c.Root {
	case "key":
		r.KeyData = publicPEM(key)
		if ofRSA, ok := key.(*rsa.PrivateKey); ok && d.Pick("PEM type", 2) == 1 {
			r.KeyData = encodePEM("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&ofRSA.PublicKey))
		}
		if d.Has("a key that is none", 4) {
			r.KeyData = pick(d, "a key that is none", []byte("key"), encodePEM("PUBLIC KEY", []byte("key")), encodePEM("EC KEY", []byte("key")))
		}
	case "keys":
		r.KeyDatas = [][]byte{publicPEM(pick(d, "second key", s.keys...)), publicPEM(key)}
	case "key and log":
		r.KeyData, r.RekorPublicKeyData = publicPEM(key), publicPEM(s.rekor)
		if d.Has("a log whose key is none", 4) {
			r.RekorPublicKeyData = pick(d, "a log whose key is none", []byte("key"), publicPEM(s.keys[1]))
		}
	case "fulcio":
		r.Fulcio = &signing.Fulcio{CAData: s.fulcio.rootPEM, OIDCIssuer: "https://issuer.example.com", SubjectEmail: "ann@example.com"}
		r.RekorPublicKeyData = publicPEM(s.rekor)
		if d.Has("an authority that is none", 4) {
			r.Fulcio.CAData = []byte("ca")
		}
	case "pki":
		r.PKI = &signing.PKI{CARootsData: s.pki.rootPEM, SubjectEmail: pick(d, "email", "", "ann@example.com"), SubjectHostname: "signer.example.com"}
		if d.Pick("intermediates", 2) == 1 {
			r.PKI.CAIntermediatesData = s.pki.chainPEM
		}
	}
	r.SignedIdentity = pick(d, "identity",
		&signing.Identity{Type: "matchRepoDigestOrExact"}, &signing.Identity{Type: "matchRepoDigestOrExact"}, &signing.Identity{Type: "matchRepository"}, &signing.Identity{Type: "matchExact"},
		&signing.Identity{Type: "exactRepository", DockerRepository: pick(d, "exact repository", "quay.example.com/team/app", "mirror.example.com/app")},
		&signing.Identity{Type: "exactReference", DockerReference: "mirror.example.com/app:v1"},
		&signing.Identity{Type: "remapIdentity", Prefix: pick(d, "prefix", "quay.example.com", "quay.example.com/team/app", "quay.example.com/te"), SignedPrefix: "mirror.example.com"})
	return r
}

// sign returns a signature of the image of c, by key.
func (s *Signers) sign(c *Case, key crypto.Signer) signing.Signature {
	d := c.draws
	layer := signing.Signature{MediaType: signing.MediaType, Payload: c.payload(), Annotations: map[string]string{}}
	if d.Has("another type", 4) {
		layer.MediaType = "application/vnd.dsse.envelope.v1+json"
	}
	byCertificate := c.Root == "fulcio" || c.Root == "pki"
	if byCertificate {
		key = s.keys[0]
	} else if d.Has("another key", 6) {
		key = s.other
	}
	signature := signWith(key, layer.Payload)
	if d.Has("another payload", 4) {
		signature = signWith(key, append(layer.Payload, ' '))
	}
	text := base64.StdEncoding.EncodeToString(signature)
	if d.Has("no base64", 3) {
		text = "no base64!"
	}
	if !d.Has("no signature", 3) {
		layer.Annotations[signing.SignatureAnnotation] = text
	}
	certificate := publicPEM(key)
	if byCertificate {
		var chain []byte
		certificate, chain = s.certify(c, key)
		if !d.Has("no certificate", 3) {
			layer.Annotations[signing.CertificateAnnotation] = string(certificate)
		}
		if c.Requirement.PKI == nil || c.Requirement.PKI.CAIntermediatesData == nil || d.Pick("chain", 2) == 1 {
			layer.Annotations[signing.ChainAnnotation] = string(chain)
		}
	}
	if c.Requirement.RekorPublicKeyData != nil && !d.Has("no log entry", 4) {
		layer.Annotations[signing.SETAnnotation] = s.logEntry(c, certificate, text, layer.Payload)
	}
	return layer
}

func signWith(key crypto.Signer, payload []byte) []byte {
	message, hash := payload, crypto.Hash(0)
	if _, ok := key.(ed25519.PrivateKey); !ok {
		sum := sha256.Sum256(payload)
		message, hash = sum[:], crypto.SHA256
	}
	return must(key.Sign(rand.Reader, message, hash))
}

// payload returns the signed bytes.
func (c *Case) payload() []byte {
	sum, d := c.Digest(), c.draws
	named := pick(d, "name", c.Reference, c.Reference, c.Reference, "quay.example.com/team/app:v1", "quay.example.com/team/app:v2", "mirror.example.com/app:v1", "mirror.example.com/team/app:v1", "mirror.example.com:v1", "mirror.example.com@"+sum, "mirror.example.com/team/app@"+sum)
	if d.Has("the repository alone", 10) {
		named = pick(d, "the repository alone", "quay.example.com/team/app", "mirror.example.com/app")
	}
	if d.Has("no reference", 3) {
		named = pick(d, "no reference", "", "://", "Quay.example.com/UP:v1")
	}
	if d.Has("another digest", 5) {
		sum = digest.FromString("other").String()
	}
	if d.Has("sha512", 2) {
		sum = digest.SHA512.FromBytes(c.Manifest).String()
	}
	if d.Has("no digest", 2) {
		sum = pick(d, "no digest", "sha256:0", "", "md5:"+strings.Repeat("0", 32))
	}
	optional := pick(d, "options", `null`, `{}`, `{"creator":"x","timestamp":1700000000}`, `{"more":{"a":[1]}}`)
	if d.Has("odd options", 4) {
		optional = pick(d, "odd options", `{"timestamp":1.5}`, `{"timestamp":"x"}`, `{"creator":1}`, `[]`, `{"creator":"a","creator":"b"}`, `1`)
	}
	kind := "cosign container image signature"
	if d.Has("another kind", 2) {
		kind = "atomic container signature"
	}
	payload := fmt.Sprintf(`{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":%q},"optional":%s}`, named, sum, kind, optional)
	if d.Has("odd JSON", 4) {
		payload = pick(d, "odd JSON", payload+"{}", payload[:len(payload)-1], `[]`, strings.Replace(payload, `"optional"`, `"other"`, 1), strings.Replace(payload, `{"identity"`, `{"identity":{},"identity"`, 1), strings.Replace(payload, `"type"`, `"extra":1,"type"`, 1))
	}
	return []byte(payload)
}

// certify returns a certificate for key, and its chain.
func (s *Signers) certify(c *Case, key crypto.Signer) (leaf, chain []byte) {
	by, d := s.fulcio, c.draws
	if c.Root == "pki" {
		by = s.pki
	}
	if d.Has("a stranger's certificate", 4) {
		by = s.strange
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-10 * time.Minute), NotAfter: time.Now().Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		EmailAddresses: []string{"ann@example.com"}, DNSNames: []string{"signer.example.com"},
	}
	if c.Root == "fulcio" {
		template.ExtraExtensions = issuers(d)
	}
	if d.Has("another subject", 4) {
		template.EmailAddresses, template.DNSNames = []string{"bob@example.com"}, []string{"other.example.com"}
	}
	if d.Has("another usage", 4) {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if d.Has("expired", 4) {
		template.NotBefore, template.NotAfter = time.Now().Add(-50*time.Minute), time.Now().Add(-40*time.Minute)
	}
	leaf, chain = encodePEM("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key))), by.chainPEM
	if d.Has("two certificates", 2) {
		leaf = append(leaf, leaf...)
	}
	if d.Has("no certificate's text", 2) {
		leaf = pick(d, "no certificate's text", []byte("x"), encodePEM("CERTIFICATE", []byte("x")))
	}
	if d.Has("an odd chain", 3) {
		chain = pick(d, "an odd chain", []byte("x"), by.rootPEM)
	}
	return leaf, chain
}

// issuers are the extensions in which Fulcio notes who has identified the subject.
func issuers(d Draws) []pkix.Extension {
	issuer := "https://issuer.example.com"
	if d.Has("another issuer", 4) {
		issuer = "https://other.example.com"
	}
	v2 := must(asn1.Marshal(issuer))
	first := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(issuer)}
	second := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: v2}
	switch {
	case d.Has("no issuer", 3):
		return nil
	case d.Has("two issuers", 2):
		first.Value = []byte("https://third.example.com")
		return []pkix.Extension{first, second}
	case d.Has("an odd issuer", 2):
		second.Value = pick(d, "an odd issuer", []byte("x"), append(v2, 0))
		return []pkix.Extension{second}
	default:
		return pick(d, "issuer", []pkix.Extension{first}, []pkix.Extension{second}, []pkix.Extension{first, second})
	}
}

// logEntry returns the word of the log that a payload was signed.
func (s *Signers) logEntry(c *Case, keyOrCertificate []byte, signature string, payload []byte) string {
	sum, d := sha256.Sum256(payload), c.draws
	raw, _ := base64.StdEncoding.DecodeString(signature)
	if d.Has("an entry for another payload", 3) {
		sum[0]++
	}
	if d.Has("an entry for another signature", 3) {
		raw = append(raw, 1)
	}
	if d.Has("an entry for another key", 3) {
		keyOrCertificate = publicPEM(s.other)
	}
	entry := [3]string{"0.0.1", "hashedrekord", "sha256"}
	if d.Has("an odd entry", 3) {
		entry = pick(d, "an odd entry", [3]string{"0.0.2", entry[1], entry[2]}, [3]string{entry[0], "intoto", entry[2]}, [3]string{entry[0], entry[1], "sha512"})
	}
	body := must(json.Marshal(map[string]any{"apiVersion": entry[0], "kind": entry[1], "spec": map[string]any{
		"data":      map[string]any{"hash": map[string]any{"algorithm": entry[2], "value": hex.EncodeToString(sum[:])}},
		"signature": map[string]any{"content": raw, "publicKey": map[string]any{"content": keyOrCertificate}},
	}}))
	canonical := fmt.Sprintf(`{"body":"%s","integratedTime":%d,"logID":"c0ffee","logIndex":42}`, base64.StdEncoding.EncodeToString(body), time.Now().Add(-time.Minute).Unix())
	by := s.rekor
	if d.Has("another log", 3) {
		by = s.other
	}
	timestamp := base64.StdEncoding.EncodeToString(signWith(by, []byte(canonical)))
	set := fmt.Sprintf(`{"SignedEntryTimestamp":"%s","Payload":%s}`, timestamp, strings.Replace(canonical, `,"logID"`, ` , "logID"`, 1))
	if d.Has("no entry's JSON", 3) {
		set = pick(d, "no entry's JSON", "", "{}", `{"Payload":{}}`, set+"x", strings.Replace(set, "c0ffee", "", 1), strings.Replace(set, `"logIndex":42`, `"logIndex":"42"`, 1), strings.Replace(set, `"Payload"`, `"Payload":{},"Payload"`, 1))
	}
	return set
}

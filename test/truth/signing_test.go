package truth

import (
	"bytes"
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
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A signingCase is an image with its signatures, and what policy.json requires of them.
type signingCase struct {
	Policy     json.RawMessage     `json:"policy"`
	Reference  string              `json:"reference"`
	Manifest   []byte              `json:"manifest"`
	Signatures []signing.Signature `json:"signatures"`

	requirement signing.Requirement
	root        string
	flaws       []string // what is wrong on purpose
}

// TestSignaturesAreJudgedAsNodesDo: package signing accepts what containers/image accepts, and
// rejects the rest, in the same words as far as people may come to read them.
func TestSignaturesAreJudgedAsNodesDo(t *testing.T) {
	skip.UnlessIntegration(t)
	count := campaign.Times(3000, many)
	folder := t.TempDir()
	if _, err := puller(folder); err != nil {
		t.Fatal(err)
	}
	signers := newSigners(t)
	cases := make([]signingCase, count)
	var questions bytes.Buffer
	for i := range cases {
		cases[i] = signers.newCase(gen{mathrand.New(mathrand.NewPCG(7, uint64(i)))}, i)
		if err := json.NewEncoder(&questions).Encode(cases[i]); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), folder+"/puller", "judge")
	cmd.Stdin, cmd.Stderr = &questions, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	seen := map[string]int{}
	for i, c := range cases {
		var answer struct{ Rejected string }
		if err := answers.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		signatures := &signing.Signatures{All: c.Signatures, Read: time.Now()}
		got := signatures.Judge(signing.NewRequirements(c.requirement), signing.Image{Reference: c.Reference, Digest: digest.FromBytes(c.Manifest).String()})
		seen[fmt.Sprint(c.root, got.Outcome)]++
		switch {
		case got.Outcome == signing.Undecided && strings.Contains(strings.Join(c.flaws, " "), "sha512"):
		case got.Outcome == signing.Undecided, (got.Outcome == signing.Accepted) != (answer.Rejected == ""), got.Reason != answer.Rejected && c.isCommon():
			t.Errorf("case %d (%s, %v): %v %q, nodes say %q", i, c.root, c.flaws, got.Outcome, got.Reason, answer.Rejected)
		}
	}
	for _, root := range signingRoots {
		if seen[fmt.Sprint(root, signing.Accepted)] < count/50 || seen[fmt.Sprint(root, signing.Rejected)] < count/50 {
			t.Errorf("root %s: %d cases are accepted and %d rejected: too few to tell", root, seen[fmt.Sprint(root, signing.Accepted)], seen[fmt.Sprint(root, signing.Rejected)])
		}
	}
	t.Logf("outcomes by root: %v", seen)
}

// isCommon reports whether the flaws of c are such as people make; of others, the errors of
// parsers need not be the same.
func (c *signingCase) isCommon() bool {
	for _, flaw := range c.flaws {
		switch flaw {
		case "another type", "another key", "no signature", "no log entry", "another log", "the repository alone", "another digest", "another subject", "another usage", "another issuer", "a stranger's certificate", "no certificate", "another kind":
		default:
			return false
		}
	}
	return true
}

var signingRoots = []string{"key", "keys", "key and log", "fulcio", "pki"}

// signers hold the keys and authorities of all cases.
type signers struct {
	keys         []crypto.Signer
	rekor, other *ecdsa.PrivateKey
	fulcio, pki  issuing
	strange      issuing // whom nobody trusts
}

// An issuing is an authority that issues certificates.
type issuing struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	rootPEM  []byte
	chainPEM []byte
}

func newSigners(t *testing.T) *signers {
	t.Helper()
	s := &signers{rekor: newECDSA(t), other: newECDSA(t), fulcio: newIssuing(t), pki: newIssuing(t), strange: newIssuing(t)}
	ofRSA, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.keys = []crypto.Signer{newECDSA(t), ofRSA, edwards, wide}
	return s
}

func newECDSA(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newIssuing returns an authority below a root.
func newIssuing(t *testing.T) issuing {
	t.Helper()
	rootKey, key := newECDSA(t), newECDSA(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	between := *root
	between.SerialNumber, between.Subject.CommonName, between.ExtKeyUsage = big.NewInt(2), "intermediate", []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	der, err := x509.CreateCertificate(rand.Reader, &between, root, key.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	i := issuing{cert: cert, key: key, rootPEM: encodePEM("CERTIFICATE", rootDER)}
	i.chainPEM = append(encodePEM("CERTIFICATE", der), i.rootPEM...)
	return i
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func publicPEM(key crypto.Signer) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err) // the keys are of known types
	}
	return encodePEM("PUBLIC KEY", der)
}

func (s *signers) newCase(g gen, number int) signingCase {
	c := signingCase{root: signingRoots[number%len(signingRoots)]}
	c.Manifest = fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"%s","size":2},"layers":[],"annotations":{"n":"%d"}}`, digest.FromString("{}"), number)
	c.Reference = pick(g, "quay.example.com/team/app:v1", "quay.example.com/team/app@"+digest.FromBytes(c.Manifest).String())
	key := s.keys[g.IntN(len(s.keys))]
	c.requirement = s.requirement(g, &c, key)
	policy := map[string]any{"default": []signing.Requirement{{Type: "reject"}}, "transports": map[string]any{"docker": map[string]any{"quay.example.com": []signing.Requirement{c.requirement}}}}
	c.Policy, _ = json.Marshal(policy)
	for range draw(g, []share[int]{{0, 1}, {1, 12}, {2, 4}, {3, 1}}) {
		c.Signatures = append(c.Signatures, s.sign(g, &c, key))
	}
	return c
}

func (s *signers) requirement(g gen, c *signingCase, key crypto.Signer) signing.Requirement {
	r := signing.Requirement{Type: signing.SigstoreSigned}
	other := s.keys[g.IntN(len(s.keys))]
	switch c.root {
	case "key":
		r.KeyData = publicPEM(key)
		if ofRSA, ok := key.(*rsa.PrivateKey); ok && g.chance(50) {
			r.KeyData = encodePEM("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&ofRSA.PublicKey))
		}
		if c.flaw(g, 4, "a key that is none") {
			r.KeyData = pick(g, []byte("key"), encodePEM("PUBLIC KEY", []byte("key")), encodePEM("EC KEY", []byte("key")))
		}
	case "keys":
		r.KeyDatas = [][]byte{publicPEM(other), publicPEM(key)}
	case "key and log":
		r.KeyData, r.RekorPublicKeyData = publicPEM(key), publicPEM(s.rekor)
		if c.flaw(g, 4, "a log whose key is none") {
			r.RekorPublicKeyData = pick(g, []byte("key"), publicPEM(s.keys[1]))
		}
	case "fulcio":
		r.Fulcio = &signing.Fulcio{CAData: s.fulcio.rootPEM, OIDCIssuer: "https://issuer.example.com", SubjectEmail: "ann@example.com"}
		r.RekorPublicKeyData = publicPEM(s.rekor)
		if c.flaw(g, 4, "an authority that is none") {
			r.Fulcio.CAData = []byte("ca")
		}
	case "pki":
		r.PKI = &signing.PKI{CARootsData: s.pki.rootPEM, SubjectEmail: pick(g, "", "ann@example.com"), SubjectHostname: "signer.example.com"}
		if g.chance(50) {
			r.PKI.CAIntermediatesData = s.pki.chainPEM
		}
	}
	r.SignedIdentity = pick(g,
		&signing.Identity{Type: "matchRepoDigestOrExact"}, &signing.Identity{Type: "matchRepoDigestOrExact"}, &signing.Identity{Type: "matchRepository"}, &signing.Identity{Type: "matchExact"},
		&signing.Identity{Type: "exactRepository", DockerRepository: pick(g, "quay.example.com/team/app", "mirror.example.com/app")},
		&signing.Identity{Type: "exactReference", DockerReference: "mirror.example.com/app:v1"},
		&signing.Identity{Type: "remapIdentity", Prefix: pick(g, "quay.example.com", "quay.example.com/team/app", "quay.example.com/te"), SignedPrefix: "mirror.example.com"})
	return r
}

// flaw decides whether c has a flaw, and notes it.
func (c *signingCase) flaw(g gen, percent int, what string) bool {
	if !g.chance(percent) {
		return false
	}
	c.flaws = append(c.flaws, what)
	return true
}

// sign returns a signature of the image of c, mostly one that its policy accepts.
func (s *signers) sign(g gen, c *signingCase, key crypto.Signer) signing.Signature {
	layer := signing.Signature{MediaType: signing.MediaType, Payload: c.payload(g), Annotations: map[string]string{}}
	if c.flaw(g, 4, "another type") {
		layer.MediaType = "application/vnd.dsse.envelope.v1+json"
	}
	if c.flaw(g, 6, "another key") {
		key = s.other
	}
	byCertificate := c.root == "fulcio" || c.root == "pki"
	if byCertificate {
		key = s.keys[0]
	}
	signature := signWith(key, layer.Payload)
	if c.flaw(g, 4, "another payload") {
		signature = signWith(key, append(layer.Payload, ' '))
	}
	text := base64.StdEncoding.EncodeToString(signature)
	if c.flaw(g, 3, "no base64") {
		text = "no base64!"
	}
	if !c.flaw(g, 3, "no signature") {
		layer.Annotations[signing.SignatureAnnotation] = text
	}
	certificate := publicPEM(key)
	if byCertificate {
		var chain []byte
		certificate, chain = s.certify(g, c, key)
		if !c.flaw(g, 3, "no certificate") {
			layer.Annotations[signing.CertificateAnnotation] = string(certificate)
		}
		if c.requirement.PKI == nil || c.requirement.PKI.CAIntermediatesData == nil || g.chance(50) {
			layer.Annotations[signing.ChainAnnotation] = string(chain)
		}
	}
	if c.requirement.RekorPublicKeyData != nil && !c.flaw(g, 4, "no log entry") {
		layer.Annotations[signing.SETAnnotation] = s.logEntry(g, c, certificate, text, layer.Payload)
	}
	return layer
}

func signWith(key crypto.Signer, payload []byte) []byte {
	message, hash := payload, crypto.Hash(0)
	if _, ok := key.(ed25519.PrivateKey); !ok {
		sum := sha256.Sum256(payload)
		message, hash = sum[:], crypto.SHA256
	}
	signature, err := key.Sign(rand.Reader, message, hash)
	if err != nil {
		panic(err) // the keys are of known types
	}
	return signature
}

// payload returns what is signed.
func (c *signingCase) payload(g gen) []byte {
	sum := digest.FromBytes(c.Manifest).String()
	named := pick(g, c.Reference, c.Reference, c.Reference, "quay.example.com/team/app:v1", "quay.example.com/team/app:v2", "mirror.example.com/app:v1", "mirror.example.com/team/app:v1", "mirror.example.com:v1", "mirror.example.com@"+sum, "mirror.example.com/team/app@"+sum)
	if c.flaw(g, 10, "the repository alone") {
		named = pick(g, "quay.example.com/team/app", "mirror.example.com/app")
	}
	if c.flaw(g, 3, "no reference") {
		named = pick(g, "", "://", "Quay.example.com/UP:v1")
	}
	if c.flaw(g, 5, "another digest") {
		sum = digest.FromString("other").String()
	}
	if c.flaw(g, 2, "sha512") {
		sum = digest.SHA512.FromBytes(c.Manifest).String()
	}
	if c.flaw(g, 2, "no digest") {
		sum = pick(g, "sha256:0", "", "md5:"+strings.Repeat("0", 32))
	}
	optional := pick(g, `null`, `{}`, `{"creator":"x","timestamp":1700000000}`, `{"more":{"a":[1]}}`)
	if c.flaw(g, 4, "odd options") {
		optional = pick(g, `{"timestamp":1.5}`, `{"timestamp":"x"}`, `{"creator":1}`, `[]`, `{"creator":"a","creator":"b"}`, `1`)
	}
	kind := "cosign container image signature"
	if c.flaw(g, 2, "another kind") {
		kind = "atomic container signature"
	}
	payload := fmt.Sprintf(`{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":%q},"optional":%s}`, named, sum, kind, optional)
	if c.flaw(g, 4, "odd JSON") {
		payload = pick(g, payload+"{}", payload[:len(payload)-1], `[]`, strings.Replace(payload, `"optional"`, `"other"`, 1), strings.Replace(payload, `{"identity"`, `{"identity":{},"identity"`, 1), strings.Replace(payload, `"type"`, `"extra":1,"type"`, 1))
	}
	return []byte(payload)
}

// certify returns a certificate for key, and its chain.
func (s *signers) certify(g gen, c *signingCase, key crypto.Signer) (leaf, chain []byte) {
	by := s.fulcio
	if c.root == "pki" {
		by = s.pki
	}
	if c.flaw(g, 4, "a stranger's certificate") {
		by = s.strange
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-10 * time.Minute), NotAfter: time.Now().Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		EmailAddresses: []string{"ann@example.com"}, DNSNames: []string{"signer.example.com"},
	}
	issuer := "https://issuer.example.com"
	if c.flaw(g, 4, "another issuer") {
		issuer = "https://other.example.com"
	}
	v2, _ := asn1.Marshal(issuer)
	first := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(issuer)}
	second := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: v2}
	template.ExtraExtensions = pick(g, []pkix.Extension{first}, []pkix.Extension{second}, []pkix.Extension{first, second})
	switch {
	case c.flaw(g, 3, "no issuer"):
		template.ExtraExtensions = nil
	case c.flaw(g, 2, "two issuers"):
		first.Value = []byte("https://third.example.com")
		template.ExtraExtensions = []pkix.Extension{first, second}
	case c.flaw(g, 2, "an odd issuer"):
		second.Value = pick(g, []byte("x"), append(v2, 0))
		template.ExtraExtensions = []pkix.Extension{second}
	}
	if c.flaw(g, 4, "another subject") {
		template.EmailAddresses, template.DNSNames = []string{"bob@example.com"}, []string{"other.example.com"}
	}
	if c.flaw(g, 4, "another usage") {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if c.flaw(g, 4, "expired") {
		template.NotBefore, template.NotAfter = time.Now().Add(-50*time.Minute), time.Now().Add(-40*time.Minute)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		panic(err) // the templates are valid
	}
	leaf, chain = encodePEM("CERTIFICATE", der), by.chainPEM
	if c.flaw(g, 2, "two certificates") {
		leaf = append(leaf, leaf...)
	}
	if c.flaw(g, 2, "no certificate's text") {
		leaf = pick(g, []byte("x"), encodePEM("CERTIFICATE", []byte("x")))
	}
	if c.flaw(g, 3, "an odd chain") {
		chain = pick(g, []byte("x"), by.rootPEM)
	}
	return leaf, chain
}

// logEntry returns the word of the log that a payload was signed.
func (s *signers) logEntry(g gen, c *signingCase, keyOrCertificate []byte, signature string, payload []byte) string {
	sum := sha256.Sum256(payload)
	raw, _ := base64.StdEncoding.DecodeString(signature)
	if c.flaw(g, 3, "an entry for another payload") {
		sum[0]++
	}
	if c.flaw(g, 3, "an entry for another signature") {
		raw = append(raw, 1)
	}
	if c.flaw(g, 3, "an entry for another key") {
		keyOrCertificate = publicPEM(s.other)
	}
	version, kind, algorithm := "0.0.1", "hashedrekord", "sha256"
	if c.flaw(g, 3, "an odd entry") {
		switch g.IntN(3) {
		case 0:
			version = "0.0.2"
		case 1:
			kind = "intoto"
		default:
			algorithm = "sha512"
		}
	}
	body, _ := json.Marshal(map[string]any{"apiVersion": version, "kind": kind, "spec": map[string]any{
		"data":      map[string]any{"hash": map[string]any{"algorithm": algorithm, "value": hex.EncodeToString(sum[:])}},
		"signature": map[string]any{"content": raw, "publicKey": map[string]any{"content": keyOrCertificate}},
	}})
	canonical := fmt.Sprintf(`{"body":"%s","integratedTime":%d,"logID":"c0ffee","logIndex":42}`, base64.StdEncoding.EncodeToString(body), time.Now().Add(-time.Minute).Unix())
	by := s.rekor
	if c.flaw(g, 3, "another log") {
		by = s.other
	}
	timestamp := base64.StdEncoding.EncodeToString(signWith(by, []byte(canonical)))
	set := fmt.Sprintf(`{"SignedEntryTimestamp":"%s","Payload":%s}`, timestamp, strings.Replace(canonical, `,"logID"`, ` , "logID"`, 1))
	if c.flaw(g, 3, "no entry's JSON") {
		set = pick(g, "", "{}", `{"Payload":{}}`, set+"x", strings.Replace(set, "c0ffee", "", 1), strings.Replace(set, `"logIndex":42`, `"logIndex":"42"`, 1), strings.Replace(set, `"Payload"`, `"Payload":{},"Payload"`, 1))
	}
	return set
}

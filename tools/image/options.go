package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// options is the command line.
type options struct {
	version, platforms, cas, push, key, image, kubectl, maintainer, out string
	release, packages                                                   bool
}

// job is what the command line asks for, checked.
type job struct {
	root, out string // folders
	version   string
	created   time.Time // of everything that is made
	platforms []v1.Platform
	cas       []byte            // PEM
	tag       *name.Tag         // nil: nothing is pushed
	key       *ecdsa.PrivateKey // nil: nothing is signed
	release   bool
	packages  bool             // and not the image, which is there
	image     *name.Repository // of install.yaml and packages
	digest    string           // that the image must have; "": any
	kubectl   string           // makes install.yaml, and reads what packages are made from
	// maintainer answers for the packages; nil: none is named.
	maintainer *mail.Address
}

// supported lists the platforms for which there is OpenShift.
const supported = "linux/amd64,linux/arm64,linux/ppc64le,linux/s390x"

// newJob reads and checks all that o names, and returns every mistake.
func newJob(ctx context.Context, o options) (*job, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return nil, err
	}
	j := &job{root: root, out: out, version: o.version, release: o.release, packages: o.packages}
	mistake := func(field, value string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %q: %w", field, value, err)
	}
	err = errors.Join(
		mistake("version", o.version, checkVersion(o.version, o.release || o.packages)),
		mistake("platforms", o.platforms, j.readPlatforms(o.platforms)),
		mistake("ca-bundle", o.cas, j.readCAs(o.cas)),
		mistake("push", o.push, j.readPush(o.push)),
		mistake("key", o.key, j.readKey(o.key, o.push)),
		mistake("image", o.image, j.readImage(o.image)),
		mistake("kubectl", o.kubectl, j.readKubectl(o.kubectl)),
		mistake("maintainer", o.maintainer, j.readMaintainer(o.maintainer)),
		j.readTime(ctx),
	)
	return j, err
}

var (
	released = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)
	// described is a commit as git describe has it where there is no tag.
	described = regexp.MustCompile(`^[0-9a-f]{7,40}(-dirty)?$`)
)

// checkVersion refuses a malformed version. A release has one that is not about uncommitted changes.
func checkVersion(version string, release bool) error {
	switch {
	case release && (!released.MatchString(version) || strings.HasSuffix(version, "-dirty")):
		return errors.New("not the version of a release, such as v0.1.0 or v0.2.0-rc.1")
	case version != "devel" && !released.MatchString(version) && !described.MatchString(version):
		return errors.New("neither a version, such as v0.1.0, nor a commit, nor devel")
	}
	return nil
}

func (j *job) readPlatforms(list string) error {
	for platform := range strings.SplitSeq(list, ",") {
		if !slices.Contains(strings.Split(supported, ","), platform) {
			return fmt.Errorf("%q is not one of %s", platform, supported)
		}
		goos, arch, _ := strings.Cut(platform, "/")
		p := v1.Platform{OS: goos, Architecture: arch}
		if slices.ContainsFunc(j.platforms, p.Equals) {
			return fmt.Errorf("%s is listed twice", platform)
		}
		j.platforms = append(j.platforms, p)
	}
	return nil
}

func (j *job) readCAs(file string) error {
	var err error
	if j.cas, err = os.ReadFile(file); err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(j.cas) {
		return errors.New("no certificate is in it")
	}
	return nil
}

func (j *job) readPush(reference string) error {
	if reference == "" {
		return nil
	}
	if strings.Contains(reference, "@") {
		return errors.New("want REGISTRY/NAME:TAG, and no digest: it follows from what is built")
	}
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("want REGISTRY/NAME:TAG: %w", err)
	}
	j.tag = &tag
	return nil
}

func (j *job) readMaintainer(text string) error {
	if text == "" {
		return nil
	}
	address, err := mail.ParseAddress(text)
	if err != nil || address.Name == "" {
		return errors.New("want NAME <ADDRESS>, as in Jane Doe <jane@example.com>")
	}
	j.maintainer = address
	return nil
}

func (j *job) readKey(file, push string) error {
	if file == "" {
		return nil
	}
	if push == "" {
		return errors.New("a signature says under which name the image is pushed, and push is not set")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	j.key, err = parseKey(data)
	return err
}

// parseKey reads an ECDSA P-256 key, which is what cosign has.
func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no private key: it is not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("want the PEM block PRIVATE KEY or EC PRIVATE KEY, found %s", block.Type)
	}
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("not an ECDSA key of curve P-256")
	}
	return ec, nil
}

func (j *job) readImage(reference string) error {
	switch {
	case j.packages:
		return j.readPushed(reference)
	case !j.release && reference != "":
		return errors.New("only a release has an install.yaml to run it")
	case !j.release:
		return nil
	case reference == "" && j.tag != nil:
		repository := j.tag.Context()
		j.image = &repository
		return nil
	case reference == "":
		return errors.New("install.yaml needs the image by digest: give REGISTRY/NAME, or push")
	}
	if digest, err := name.NewDigest(reference, name.StrictValidation); err == nil {
		repository := digest.Context()
		j.image, j.digest = &repository, digest.DigestStr()
		return nil
	}
	if tag, err := name.NewTag(reference, name.StrictValidation); err == nil {
		return fmt.Errorf("the tag %s is where a digest is due: give REGISTRY/NAME or REGISTRY/NAME@DIGEST", tag.TagStr())
	}
	repository, err := name.NewRepository(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("want REGISTRY/NAME or REGISTRY/NAME@DIGEST: %w", err)
	}
	j.image = &repository
	return nil
}

// readPushed reads the image that packages install.
func (j *job) readPushed(reference string) error {
	if tag, err := name.NewTag(reference, name.StrictValidation); err == nil {
		return fmt.Errorf("the tag %s may be moved after it was checked: give REGISTRY/NAME@DIGEST, as make image prints it", tag.TagStr())
	}
	digest, err := name.NewDigest(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("want REGISTRY/NAME@DIGEST, as make image prints it: %w", err)
	}
	repository := digest.Context()
	j.image, j.digest = &repository, digest.DigestStr()
	return nil
}

func (j *job) readKubectl(program string) error {
	if !j.release && !j.packages {
		return nil
	}
	var err error
	j.kubectl, err = exec.LookPath(program)
	return err
}

// readTime takes the time from SOURCE_DATE_EPOCH or the commit, never from a clock.
func (j *job) readTime(ctx context.Context) error {
	const variable = "SOURCE_DATE_EPOCH"
	value := os.Getenv(variable)
	if value == "" {
		git := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
		git.Dir = j.root
		output, err := git.Output()
		if err != nil {
			return fmt.Errorf("%s: not set, and git does not tell the commit's time: %w", variable, err)
		}
		value = strings.TrimSpace(string(output))
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds < 0 {
		return fmt.Errorf("%s: %q: not a number of seconds since 1970", variable, value)
	}
	j.created = time.Unix(seconds, 0).UTC()
	return nil
}

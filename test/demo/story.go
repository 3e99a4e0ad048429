package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func base64CA(pem []byte) string { return base64.StdEncoding.EncodeToString(pem) }

// tell tells the story. The error says which step went differently.
func (s *stage) tell(ctx context.Context) error {
	for _, step := range []struct {
		letter, narration string
		do                func(context.Context) error
	}{
		{"a", "The ITMS of the story: all of quay.io from the mirror, never from the source. The routers are pulled by digest, which a tag mirror does not serve.", s.everything},
		{"b", "An IDMS for the platform. The shop's images were mirrored; somebody forgot the routers.", s.platformTooEarly},
		{"c", "The router image is copied, as the refusal says. What the copy leaves behind is its signature, and nodes look for that at the mirror alone.", s.platformUnsigned},
		{"d", "One command copies whatever the mirror still lacks, signatures included, and reviews the change again. The same IDMS passes now.", s.platformInTime},
		{"e", "The source goes away: this cluster is disconnected from now on. A narrow ITMS would take the routers' mirror away.", s.narrow},
		{"f", "Deleting the IDMS would send the routers back to a source that is gone.", s.deletePlatform},
		{"g", "The same question from the command line, before anybody types kubectl.", s.check},
	} {
		fmt.Fprintf(s.out, "\n(%s) %s\n", step.letter, step.narration)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("step %s: %w", step.letter, err)
		}
	}
	fmt.Fprintf(s.out, "\nAll seven came out as they should. The guard uses %.1f MB of memory.\n", float64(s.residentKB())/1024)
	return nil
}

func (s *stage) everything(ctx context.Context) error {
	return s.refused(ctx, "everything.yaml", "apply",
		"1. quay.io/"+routerRepo+"@"+s.router,
		"openshift-ingress/router-default (router)",
		"NoRoute: NeverContactSource blocks pulls by digest too")
}

func (s *stage) copyCommand() string {
	return fmt.Sprintf("skopeo copy --all --preserve-digests docker://%s/%s@%s docker://%s/%s@%s",
		sourceHost, routerRepo, s.router, mirrorHost, routerRepo, s.router)
}

func (s *stage) platformTooEarly(ctx context.Context) error {
	return s.refused(ctx, "platform.yaml", "apply", "openshift-ingress/router-default (router)", "ImageMissing", s.copyCommand())
}

// platformUnsigned copies the image, as the refusal says.
func (s *stage) platformUnsigned(ctx context.Context) error {
	fmt.Fprintf(s.out, "\n$ %s\n", s.copyCommand())
	ref := "/" + routerRepo + "@" + s.router
	if err := s.copyImage(ctx, sourceHost+ref, mirrorHost+ref); err != nil {
		return err
	}
	return s.refused(ctx, "platform.yaml", "apply", "SignatureMissing", "required by ClusterImagePolicy openshift")
}

// platformInTime copies missing images with the guard's own command.
func (s *stage) platformInTime(ctx context.Context) error {
	out, exit := s.types(ctx, "sync", "platform.yaml")
	if exit != 0 {
		return fmt.Errorf("sync ends with %d:\n%s", exit, out)
	}
	if err := contains(out, "ImageDigestMirrorSet platform is admitted"); err != nil {
		return err
	}
	out, err := s.kubectl(ctx, "platform.yaml", "apply")
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	return contains(out, "Warning: ImageDigestMirrorSet platform reroutes 1 of 5 images: all verified", "imagedigestmirrorset.config.openshift.io/platform created")
}

// types types mirrorset-guard COMMAND -f FILE, and prints what comes back.
func (s *stage) types(ctx context.Context, command, file string) (out string, exit int) {
	fmt.Fprintf(s.out, "\n$ mirrorset-guard %s -f %s; echo $?\n", command, file)
	cmd := exec.CommandContext(ctx, s.binary, command, "-f", filepath.Join(s.dir, file), "--kubeconfig", s.cluster.Kubeconfig,
		"--registry-ca", filepath.Join(s.dir, "tls", "ca.crt"), "--resolve", sourceHost+"="+s.source.Addr, "--resolve", mirrorHost+"="+s.mirror.Addr)
	cmd.Env = s.env
	said, _ := cmd.CombinedOutput() // the exit code says what became of it
	exit = cmd.ProcessState.ExitCode()
	fmt.Fprintf(s.out, "%s%d\n", said, exit)
	return string(said), exit
}

func (s *stage) narrow(ctx context.Context) error {
	if err := s.source.Stop(); err != nil {
		return err
	}
	return s.refused(ctx, "narrow.yaml", "apply", "MirrorHidden", "openshift-ingress/router-default (router)")
}

func (s *stage) deletePlatform(ctx context.Context) error {
	if err := s.refused(ctx, "platform.yaml", "delete", "Deleting ImageDigestMirrorSet platform is refused", "Unverified"); err != nil {
		return err
	}
	out, err := s.cluster.Kubectl(ctx, "", "get", "imagedigestmirrorset", "platform")
	if err != nil {
		return fmt.Errorf("the IDMS is gone: %w\n%s", err, out)
	}
	return nil
}

// check runs the command, which must give the webhook's answer of step e.
func (s *stage) check(ctx context.Context) error {
	refusal, err := s.dryRun(ctx, "narrow.yaml")
	if err != nil {
		return err
	}
	out, exit := s.types(ctx, "check", "narrow.yaml") // as step e wrote it
	if exit != 1 {
		return fmt.Errorf("exit code %d, want 1", exit)
	}
	return contains(out, refusal)
}

// dryRun returns the findings of a refusal, without the text around them.
func (s *stage) dryRun(ctx context.Context, file string) (string, error) {
	text, err := s.object(file)
	if err != nil {
		return "", err
	}
	out, err := s.cluster.Kubectl(ctx, text, "apply", "--dry-run=server", "-f", "-")
	if err == nil {
		return "", errors.New("the dry run was admitted")
	}
	_, message, ok := strings.Cut(out, "denied the request: ")
	findings, _, cut := strings.Cut(message, "\nNothing was changed")
	if !ok || !cut {
		return "", fmt.Errorf("no refusal: %s", out)
	}
	return findings, nil
}

// refused types kubectl and expects the refusal to contain all of texts.
func (s *stage) refused(ctx context.Context, file, verb string, texts ...string) error {
	out, err := s.kubectl(ctx, file, verb)
	if err == nil {
		return errors.New("it was admitted")
	}
	return contains(out, append(texts, "denied the request")...)
}

// kubectl types kubectl VERB -f FILE and prints what comes back.
func (s *stage) kubectl(ctx context.Context, file, verb string) (string, error) {
	text, err := s.object(file)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
		return "", err
	}
	fmt.Fprintf(s.out, "\n$ kubectl %s -f %s\n", verb, file)
	start := time.Now()
	out, err := s.cluster.Kubectl(ctx, "", verb, "-f", file)
	fmt.Fprintf(s.out, "%s(%d ms)\n", out, time.Since(start).Milliseconds())
	return out, err
}

func contains(out string, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(out, text) {
			return fmt.Errorf("the answer does not say %q:\n%s", text, out)
		}
	}
	return nil
}

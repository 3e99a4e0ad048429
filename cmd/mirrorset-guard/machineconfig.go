package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A machineConfigSource returns a MachineConfig as JSON or YAML, or why it
// cannot.
type machineConfigSource func(ctx context.Context, name string) ([]byte, error)

// readApplied returns what nodes are given.
func readApplied(ctx context.Context, configs machineConfigSource) (sysregistriesv2.V2RegistriesConf, error) {
	var conf sysregistriesv2.V2RegistriesConf
	data, err := configs(ctx, generatedRegistries)
	if err != nil {
		return conf, err
	}
	var mc machineConfig
	if err := yaml.Unmarshal(data, &mc); err != nil {
		return conf, fmt.Errorf("reading MachineConfig %s: %w", generatedRegistries, err)
	}
	if conf, err = mc.registries(); err != nil {
		return conf, fmt.Errorf("reading MachineConfig %s: %w", generatedRegistries, err)
	}
	return conf, nil
}

// machineConfig is what is wanted of a MachineConfig: the files in its Ignition
// configuration, of which versions 2 and 3 have these fields alike.
type machineConfig struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Config struct {
			Storage struct {
				Files []ignitionFile `json:"files"`
			} `json:"storage"`
		} `json:"config"`
	} `json:"spec"`
}

type ignitionFile struct {
	Path     string `json:"path"`
	Contents struct {
		Source      string `json:"source"`
		Compression string `json:"compression"`
	} `json:"contents"`
}

// registries returns the configuration that mc gives to nodes. Without objects,
// MCO writes no registries.conf and the one that comes with the system holds.
func (mc machineConfig) registries() (sysregistriesv2.V2RegistriesConf, error) {
	none, err := mirrors.Resolve(mirrors.Set{})
	if err != nil {
		return sysregistriesv2.V2RegistriesConf{}, err
	}
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: none.Config().UnqualifiedSearchRegistries}
	if err := mc.decode(registriesPath, &conf); err != nil {
		return conf, err
	}
	search := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: conf.UnqualifiedSearchRegistries}
	err = mc.decode(searchDropIn, &search)
	conf.UnqualifiedSearchRegistries = search.UnqualifiedSearchRegistries // which the runtime reads last
	return conf, err
}

// decode reads a file of mc, if there is one of this name, over conf.
func (mc machineConfig) decode(name string, conf *sysregistriesv2.V2RegistriesConf) error {
	for _, f := range mc.Spec.Config.Storage.Files {
		if f.Path != name {
			continue
		}
		text, err := f.text()
		if err == nil {
			_, err = toml.Decode(string(text), conf)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// text returns the content of a file, which Ignition has as a data URL (RFC
// 2397).
func (f ignitionFile) text() ([]byte, error) {
	rest, ok := strings.CutPrefix(f.Contents.Source, "data:")
	meta, data, found := strings.Cut(rest, ",")
	if !ok || !found {
		return nil, errors.New("its contents are not a data URL")
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		return nil, err
	}
	content := []byte(plain)
	if strings.HasSuffix(meta, ";base64") {
		if content, err = base64.StdEncoding.DecodeString(plain); err != nil {
			return nil, err
		}
	}
	switch f.Contents.Compression {
	case "":
		return content, nil
	case "gzip":
		return unzip(content)
	default:
		return nil, fmt.Errorf("its compression %q is not known", f.Contents.Compression)
	}
}

// maxUnzipped is many times what a MachineConfig may hold (1,572,864 bytes).
const maxUnzipped = 64 << 20

func unzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnzipped+1))
	if len(text) > maxUnzipped {
		return nil, fmt.Errorf("larger than %d MiB", maxUnzipped>>20)
	}
	return text, err
}

// machineConfigs returns where MachineConfigs come from, and the streams for who
// reads the rest of the world: a dump on standard input can be read only once.
func (o *renderOptions) machineConfigs(from streams) (machineConfigSource, streams) {
	switch o.world.from {
	case "":
		return o.world.cluster.machineConfig, from
	case "-":
		var seen bytes.Buffer
		from.in = io.TeeReader(from.in, &seen)
		return inDump(func(name string) ([]byte, error) { return machineConfigIn(&seen, name) }), from
	default:
		return inDump(func(name string) ([]byte, error) { return machineConfigBelow(o.world.from, name) }), from
	}
}

// inDump is a source that finds nil where there is nothing.
func inDump(find func(name string) ([]byte, error)) machineConfigSource {
	return func(_ context.Context, name string) ([]byte, error) {
		data, err := find(name)
		if err == nil && data == nil {
			return nil, fmt.Errorf("the dump has no MachineConfig %s", name)
		}
		return data, err
	}
}

// machineConfig reads one from the cluster.
func (c *clusterFlags) machineConfig(ctx context.Context, name string) ([]byte, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for MachineConfigs: %w", err)
	}
	o, err := client.Resource(machineConfigs).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // of the kind or of the name: both mean that no MCO has been at work
		return nil, fmt.Errorf("the cluster has no MachineConfig %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", name, err)
	}
	return o.MarshalJSON()
}

var machineConfigs = schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigs"}

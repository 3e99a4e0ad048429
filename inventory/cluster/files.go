package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const machineConfigs = "/apis/machineconfiguration.openshift.io/v1/machineconfigs"

// registryFiles returns the files beside the generated ones: as they are followed or, if nothing
// is followed, read page by page.
func (c *Inventory) registryFiles(ctx context.Context) ([]mirrors.File, error) {
	follows := slices.ContainsFunc(c.sources, func(s *source) bool { return s.kind == "MachineConfig" && s.Status().Synced })
	if !follows {
		return c.mirrors.listFiles(ctx)
	}
	files := c.files.All()
	slices.SortFunc(files, func(a, b []mirrors.File) int { return strings.Compare(nameOfFiles(a), nameOfFiles(b)) })
	return slices.Concat(files...), nil
}

func nameOfFiles(files []mirrors.File) string {
	if len(files) == 0 {
		return ""
	}
	return files[0].MachineConfig
}

// filesPage is small, as a MachineConfig may have a megabyte.
const filesPage = 5

func (r mirrorReader) listFiles(ctx context.Context) ([]mirrors.File, error) {
	var files []mirrors.File
	var wrong error
	err := readPages(ctx, r, machineConfigs, nil, filesPage, func(page []json.RawMessage) bool {
		for _, data := range page {
			var of []mirrors.File
			if of, wrong = objects.DecodeFiles(data); wrong != nil {
				return false
			}
			files = append(files, of...)
		}
		return true
	})
	if err = cmp.Or(err, wrong); err != nil {
		return nil, fmt.Errorf("reading MachineConfigs: %w", err)
	}
	slices.SortStableFunc(files, func(a, b mirrors.File) int { return cmp.Compare(a.MachineConfig, b.MachineConfig) })
	return files, nil
}

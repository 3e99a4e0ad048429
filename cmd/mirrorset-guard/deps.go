package main

import (
	_ "github.com/go-logr/zapr"
	_ "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/zap"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sync/singleflight"
	_ "golang.org/x/time/rate"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/google/go-cmp/cmp"
	_ "golang.org/x/tools/txtar"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/dynamic"
	_ "sigs.k8s.io/controller-runtime/pkg/certwatcher"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/controller-runtime/pkg/manager"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func main() {}

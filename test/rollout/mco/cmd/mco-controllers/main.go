// Mco-controllers runs those controllers of the Machine Config Operator that a mirror set
// passes through on its way to the nodes (container-runtime-config, render, node and
// drain), and the one that gives PinnedImageSets to pools, each as it is, with waiting times for tests.
//
//	mco-controllers -kubeconfig FILE -templates FOLDER
//
// The operator's own machine-config-controller runs more of them, which want more of a
// cluster than there is, and its waiting times cannot be set. The template controller is
// not among these, so somebody else has to write what it does: a MachineConfig for each
// pool, and the status of the ControllerConfig.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/api/features"
	configclient "github.com/openshift/client-go/config/clientset/versioned"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	mcfgclient "github.com/openshift/client-go/machineconfiguration/clientset/versioned"
	mcfginformers "github.com/openshift/client-go/machineconfiguration/informers/externalversions"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	operatorinformers "github.com/openshift/client-go/operator/informers/externalversions"
	ctrlcommon "github.com/openshift/machine-config-operator/pkg/controller/common"
	crc "github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config"
	"github.com/openshift/machine-config-operator/pkg/controller/drain"
	"github.com/openshift/machine-config-operator/pkg/controller/node"
	"github.com/openshift/machine-config-operator/pkg/controller/pinnedimageset"
	"github.com/openshift/machine-config-operator/pkg/controller/render"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the flags.
type options struct {
	kubeconfig, templates string
	// delay is what the node and the drain controller wait after a change, retry what
	// the drain controller waits after a drain that did not end. Upstream has 5 s and 1
	// minute.
	delay, retry time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "")
	flag.StringVar(&o.templates, "templates", "", "the folder templates of the Machine Config Operator")
	flag.DurationVar(&o.delay, "delay", 500*time.Millisecond, "wait so long after a change")
	flag.DurationVar(&o.retry, "retry", 5*time.Second, "wait so long after a drain that failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	s, err := newStage(config)
	if err != nil {
		return err
	}
	controllers := s.controllers(o) // which register what they watch
	s.start(ctx)
	var running sync.WaitGroup
	for _, c := range controllers {
		running.Go(func() { c.Run(2, ctx.Done()) })
	}
	running.Wait()
	return nil
}

// A stage has what the controllers share.
type stage struct {
	kube   kubernetes.Interface
	mcfg   mcfgclient.Interface
	config configclient.Interface
	gates  ctrlcommon.FeatureGatesHandler

	cores     informers.SharedInformerFactory
	mcfgs     mcfginformers.SharedInformerFactory
	layers    mcfginformers.SharedInformerFactory
	configs   configinformers.SharedInformerFactory
	operators operatorinformers.SharedInformerFactory
}

func newStage(config *rest.Config) (*stage, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	mcfg, err := mcfgclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	conf, err := configclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	operator, err := operatorclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	const resync = 10 * time.Minute
	return &stage{
		kube: kube, mcfg: mcfg, config: conf,
		gates:     ctrlcommon.NewFeatureGatesHardcodedHandler(on, off),
		cores:     informers.NewSharedInformerFactory(kube, resync),
		mcfgs:     mcfginformers.NewSharedInformerFactory(mcfg, resync),
		layers:    mcfginformers.NewSharedInformerFactory(mcfg, resync),
		configs:   configinformers.NewSharedInformerFactory(conf, resync),
		operators: operatorinformers.NewSharedInformerFactory(operator, resync),
	}, nil
}

// on and off are the gates that the controllers ask about. A controller that asks about one that
// is not listed ends the program. Image policies are on in every cluster since 4.20.
var (
	on  = []configv1.FeatureGateName{features.FeatureGateSigstoreImageVerification}
	off = []configv1.FeatureGateName{
		features.FeatureGateMachineConfigNodes, features.FeatureGatePinnedImages, features.FeatureGateOnClusterBuild,
		features.FeatureGateManagedBootImages, features.FeatureGateManagedBootImagesAWS,
	}
)

func (s *stage) controllers(o options) []ctrlcommon.Controller {
	m, c, nodes := s.mcfgs.Machineconfiguration().V1(), s.configs.Config().V1(), s.cores.Core().V1().Nodes()
	drains := drain.DefaultConfig()
	drains.UpdateDelay, drains.DrainRequeueDelay, drains.DrainHelperTimeout = o.delay, o.retry, 2*o.retry
	return []ctrlcommon.Controller{
		crc.New(o.templates, m.MachineConfigPools(), m.ControllerConfigs(), m.ContainerRuntimeConfigs(),
			c.Images(), c.ImageDigestMirrorSets(), c.ImageTagMirrorSets(), s.configs,
			s.operators.Operator().V1alpha1().ImageContentSourcePolicies(), c.ClusterVersions(), s.kube, s.mcfg, s.config, s.gates),
		render.New(m.MachineConfigPools(), m.MachineConfigs(), m.ControllerConfigs(), m.ContainerRuntimeConfigs(), m.KubeletConfigs(), s.kube, s.mcfg),
		node.NewWithCustomUpdateDelay(m.ControllerConfigs(), m.MachineConfigs(), m.MachineConfigPools(), nodes, s.cores.Core().V1().Pods(),
			s.layers.Machineconfiguration().V1().MachineOSConfigs(), c.Schedulers(), s.kube, s.mcfg, o.delay, s.gates),
		drain.New(drains, nodes, m.MachineConfigPools(), s.kube, s.mcfg, s.gates),
		pinnedimageset.New(m.PinnedImageSets(), m.MachineConfigPools(), s.kube, s.mcfg),
	}
}

func (s *stage) start(ctx context.Context) {
	s.cores.Start(ctx.Done())
	s.mcfgs.Start(ctx.Done())
	// Not layers: no cluster here builds images for its nodes, and the node controller
	// waits for that informer only where the gate is on.
	s.configs.Start(ctx.Done())
	s.operators.Start(ctx.Done())
}

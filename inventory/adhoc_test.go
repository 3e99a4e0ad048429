package inventory
import ("testing";"time";"fmt";"sync";"runtime"
metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
"k8s.io/client-go/kubernetes"
"k8s.io/client-go/rest"
corev1 "k8s.io/api/core/v1")
func TestAdhoc(t *testing.T) {
	cfg := rest.CopyConfig(fromAPIServer(t)); cfg.QPS=-1
	kube := kubernetes.NewForConfigOrDie(protobuf(cfg))
	for i := range 500 { namespace(t, kube, fmt.Sprintf("team-%d", i)) }
	const n = 10000
	var wg sync.WaitGroup
	ch := make(chan int)
	for range 16 { wg.Go(func(){ for i := range ch { p := decodedPod(t, i); p.ManagedFields=nil; st := p.Status
		q, err := kube.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); if err != nil { t.Error(err); return }
		q.Status = st; if _, err := kube.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil { t.Error(err) } } }) }
	start := time.Now(); for i := range n { ch <- i }; close(ch); wg.Wait(); fmt.Println("created", time.Since(start))
	var ls *corev1.PodList
	for range 2 {
	start = time.Now(); ls, _ = kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{ResourceVersion:"0"}); fmt.Println("bare list", len(ls.Items), time.Since(start)); ls = nil }
	var c *Cluster
	start = time.Now()
	h := heapOf(func() any { c = running(t, cfg, Options{}); if err := c.WaitReady(timeout(t)); err != nil { t.Fatal(err) }; fmt.Println("ready", time.Since(start)); im, _ := c.Images(t.Context()); fmt.Println(len(im)); return im })
	fmt.Println("heap MB", h/1e6, "goroutines", runtime.NumGoroutine())
	s := workloads(kube, &Index{})[0]
	start = time.Now(); s.list(t.Context(), metav1.ListOptions{}); fmt.Println("paged list", time.Since(start))
	var worst time.Duration
	for i := range 50 {
		p := &corev1.Pod{ObjectMeta: named("team-1", fmt.Sprint("late-", i)), Spec: containers(fmt.Sprint("quay.io/late:", i))}
		start = time.Now(); if _, err := kube.CoreV1().Pods("team-1").Create(t.Context(), p, metav1.CreateOptions{}); err != nil { t.Fatal(err) }
		eventually(t, "x", func() bool { return len(usersOf(t, c, "team-1", fmt.Sprint("quay.io/late:", i))) == 1 })
		worst = max(worst, time.Since(start))
	}
	fmt.Println("worst delay", worst)
}

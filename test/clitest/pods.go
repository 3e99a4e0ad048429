package clitest

import (
	"bufio"
	"fmt"
	"io"
)

// DumpOfPods writes a mirror set and n pods as "oc get -o json" prints them but for white space: 100,000 pods are 77 MB.
func DumpOfPods(w io.Writer, n int) error {
	dump := bufio.NewWriter(w)
	fmt.Fprint(dump, `{"apiVersion":"v1","items":[{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"live"},`+
		`"spec":{"imageTagMirrors":[{"source":"quay.io/live","mirrors":["m.example.com/live"]}]}}`)
	for i := range n {
		owner := i / 10
		fmt.Fprintf(dump, `,{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":"2026-02-01T00:00:00Z","labels":{"app":"app-%[2]d"},`+
			`"name":"app-%[2]d-6d8f7c9b5d-x%06[1]d","namespace":"team-%[3]d","ownerReferences":[{"apiVersion":"apps/v1","controller":true,"kind":"ReplicaSet","name":"app-%[2]d-6d8f7c9b5d","uid":"1"}],"resourceVersion":"%[1]d"},`+
			`"spec":{"containers":[{"image":"quay.io/team-%[3]d/app-%[2]d:v1","name":"app","resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}],"nodeName":"worker-%[4]d","serviceAccountName":"default"},`+
			`"status":{"conditions":[{"status":"True","type":"Ready"}],"containerStatuses":[{"imageID":"quay.io/team-%[3]d/app-%[2]d@sha256:%064[2]d","name":"app","ready":true,"restartCount":0}],"phase":"Running"}}`, i, owner, owner/20, i%500)
	}
	fmt.Fprint(dump, `],"kind":"List","metadata":{"resourceVersion":""}}`)
	return dump.Flush()
}

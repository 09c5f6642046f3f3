//go:build tools

// Package stand names the commands that the control plane is built from, so that `go mod tidy` keeps them.
// The build tag is never set: nothing here is compiled.
package stand

import (
	_ "go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)

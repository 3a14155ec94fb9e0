// Command spdy runs a command in a pod with client-go's SPDY executor, as the conformance suite of the MCS API does, or
// forwards a port, as old versions of kubectl do.
//
//	spdy KUBECONFIG CONTEXT NAMESPACE POD exec [-i] [-tty-asked] -- COMMAND...
//	spdy KUBECONFIG CONTEXT NAMESPACE POD get PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

func main() {
	if len(os.Args) < 7 {
		fail(errors.New("too few arguments"))
	}
	file, name, namespace, pod := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file},
		&clientcmd.ConfigOverrides{CurrentContext: name},
	).ClientConfig()
	check(err)
	client, err := kubernetes.NewForConfig(config)
	check(err)
	request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod)
	if os.Args[5] == "get" {
		get(config, request, os.Args[6])
		return
	}
	run(config, request, os.Args[6:])
}

func run(config *rest.Config, request *rest.Request, words []string) {
	stdin, asked := false, false
	for len(words) > 0 && words[0] != "--" {
		stdin = stdin || words[0] == "-i"
		asked = asked || words[0] == "-tty-asked"
		words = words[1:]
	}
	request.SubResource("exec").VersionedParams(&v1.PodExecOptions{
		Command: words[1:], Stdin: stdin, Stdout: true, Stderr: true, TTY: asked,
	}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	check(err)
	limit, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options := remotecommand.StreamOptions{Stdout: os.Stdout, Stderr: os.Stderr}
	if stdin {
		options.Stdin = os.Stdin
	}
	err = executor.StreamWithContext(limit, options)
	var code exec.CodeExitError
	if errors.As(err, &code) {
		os.Exit(code.Code)
	}
	check(err)
}

func get(config *rest.Config, request *rest.Request, port string) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	check(err)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", request.SubResource("portforward").URL())
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(dialer, []string{"0:" + port}, stop, ready, io.Discard, os.Stderr)
	check(err)
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		check(err)
	}
	ports, err := forwarder.GetPorts()
	check(err)
	for range 3 {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
		check(err)
		body, err := io.ReadAll(answer.Body)
		check(err)
		fmt.Println(strings.TrimSpace(string(body)))
	}
	close(stop)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(125)
}

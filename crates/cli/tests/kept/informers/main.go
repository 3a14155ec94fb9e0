// Command informers follows a cluster with client-go and tells what it sees, a line for each thing.
//
//	informers KUBECONFIG follow NAMESPACE            until stdin ends: ConfigMaps with types, example.com's things without
//	informers KUBECONFIG watch NAMESPACE SECONDS     the raw events of ConfigMaps, bookmarks among them
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientgo "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) < 4 {
		fail(errors.New("too few arguments"))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return &listener{next} }
	switch os.Args[2] {
	case "follow":
		follow(config, os.Args[3])
	case "watch":
		seconds, err := strconv.ParseInt(os.Args[4], 10, 64)
		check(err)
		watch(config, os.Args[3], seconds)
	}
}

func follow(config *rest.Config, namespace string) {
	typed, err := kubernetes.NewForConfig(config)
	check(err)
	untyped, err := dynamic.NewForConfig(config)
	check(err)
	stop := make(chan struct{})
	known := clientgo.NewSharedInformerFactoryWithOptions(typed, 0, clientgo.WithNamespace(namespace))
	listen("configmaps", known.Core().V1().ConfigMaps().Informer())
	others := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, nil)
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	listen("things", others.ForResource(things).Informer())
	known.Start(stop)
	others.Start(stop)
	known.WaitForCacheSync(stop)
	others.WaitForCacheSync(stop)
	say("synced")
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(stop)
}

func listen(resource string, informer cache.SharedIndexInformer) {
	check(informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { say("%s broken %v", resource, err) }))
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("%s add %s", resource, show(object)) },
		UpdateFunc: func(_, object any) { say("%s update %s", resource, show(object)) },
		DeleteFunc: func(object any) {
			if last, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = last.Obj
			}
			say("%s delete %s", resource, show(object))
		},
	})
	check(err)
}

func watch(config *rest.Config, namespace string, seconds int64) {
	client, err := kubernetes.NewForConfig(config)
	check(err)
	options := metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
	events, err := client.CoreV1().ConfigMaps(namespace).Watch(context.Background(), options)
	check(err)
	for event := range events.ResultChan() {
		object, err := meta.Accessor(event.Object)
		check(err)
		say("%s %s %s", event.Type, show(event.Object), object.GetResourceVersion())
	}
}

func show(object any) string {
	found, err := meta.Accessor(object)
	check(err)
	return found.GetName()
}

// listener tells which lists and watches are asked for.
type listener struct{ next http.RoundTripper }

func (l *listener) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	_, resource, _ := strings.Cut(request.URL.Path, "/namespaces/")
	_, resource, _ = strings.Cut(resource, "/")
	kind := "list"
	if query.Get("watch") != "" {
		kind = "watch"
	}
	if query.Get("sendInitialEvents") == "true" {
		kind = "watch-list"
	}
	say("%s asked %s", resource, kind)
	return l.next.RoundTrip(request)
}

var out sync.Mutex

func say(format string, values ...any) {
	out.Lock()
	defer out.Unlock()
	fmt.Printf(format+"\n", values...)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Renders a chart with Helm's own engine, as `helm template` does.
//
//	chart-renderer CHART NAMESPACE < values.json
//
// prints a JSON object: the name of each template, and what it becomes. With CHART_SERVER, CHART_TOKEN and CHART_AUTHORITY (PEM)
// templates can look at that cluster, as they can when Helm installs them there.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/client-go/rest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: chart-renderer CHART NAMESPACE < values.json")
	}
	loaded, err := loader.Load(os.Args[1])
	if err != nil {
		return err
	}
	values := map[string]interface{}{}
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: "tombolo", Namespace: os.Args[2], IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, release, nil)
	if err != nil {
		return err
	}
	render := engine.Render
	if server := os.Getenv("CHART_SERVER"); server != "" {
		cluster := &rest.Config{
			Host:            server,
			BearerToken:     os.Getenv("CHART_TOKEN"),
			TLSClientConfig: rest.TLSClientConfig{CAData: []byte(os.Getenv("CHART_AUTHORITY"))},
		}
		render = func(loaded *chart.Chart, values chartutil.Values) (map[string]string, error) {
			return engine.RenderWithClient(loaded, values, cluster)
		}
	}
	rendered, err := render(loaded, all)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rendered)
}

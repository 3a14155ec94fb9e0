// Renders a chart with Helm's own engine, as `helm template` does.
//
//	chart-renderer CHART NAMESPACE < values.json
//
// prints a JSON object: the name of each template, and what it becomes.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
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
	rendered, err := engine.Render(loaded, all)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rendered)
}

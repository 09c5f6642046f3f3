// Command celoracle answers device selectors with Kubernetes' own CEL environment.
//
// It reads one JSON object a line, {"expression": …, "device": …}, and writes one a line:
// {"phase": "compile" | "runtime" | "ok", "value": …, "cost": …, "error": …}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string `json:"expression"`
	Device     device `json:"device"`
}

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	Phase string  `json:"phase"`
	Value bool    `json:"value"`
	Cost  *uint64 `json:"cost,omitempty"`
	Error string  `json:"error,omitempty"`
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "celoracle:", err)
		os.Exit(1)
	}
}

func serve() error {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	questions := json.NewDecoder(in)
	answers := json.NewEncoder(out)
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	compile := func(expression string) cel.CompilationResult {
		return compiler.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
	}
	for questions.More() {
		var q question
		if err := questions.Decode(&q); err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		if err := answers.Encode(ask(compile, q)); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("writing answers: %w", err)
			}
		}
	}
	return out.Flush()
}

// ask compiles and evaluates one selector. What panics in the reference is reported as such.
func ask(compile func(string) cel.CompilationResult, q question) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{Phase: "panic", Error: fmt.Sprint(r)}
		}
	}()
	compiled := compile(q.Expression)
	if compiled.Error != nil {
		return answer{Phase: "compile", Error: compiled.Error.Error()}
	}
	value, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   q.Device.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 q.Device.Capacity,
	})
	if details != nil {
		a.Cost = details.ActualCost()
	}
	if err != nil {
		a.Phase, a.Error = "runtime", err.Error()
		return a
	}
	a.Phase, a.Value = "ok", value
	return a
}

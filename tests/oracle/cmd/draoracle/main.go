// Command draoracle allocates devices with Kubernetes' own allocator.
//
// It reads one JSON object a line, a question, and writes one a line, an answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// patience is how long the reference may search one node.
const patience = 20 * time.Second

// question is a node, what there is, and the claims that want devices.
type question struct {
	// "incubating" or "experimental": both try pools in order of name.
	Allocator string                       `json:"allocator"`
	Features  structured.Features          `json:"features"`
	Node      *v1.Node                     `json:"node"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated []device                     `json:"allocated"`
	Shared    []share                      `json:"shared"`
}

type device struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

// share is a part of a device that somebody holds.
type share struct {
	device
	ShareID  types.UID                                       `json:"shareID"`
	Consumed map[resourceapi.QualifiedName]resource.Quantity `json:"consumed"`
}

type answer struct {
	// "allocated", "none", or the class of the error.
	Outcome     string                         `json:"outcome"`
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Error       string                         `json:"error,omitempty"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return nil, errors.New("nobody lists classes")
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, found := c[name]; found {
		return class, nil
	}
	return nil, fmt.Errorf("device class %q not found", name)
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "draoracle:", err)
		os.Exit(1)
	}
}

func serve() error {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	questions := json.NewDecoder(in)
	answers := json.NewEncoder(out)
	caches := map[string]*cel.Cache{
		"incubating": cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true}),
		"experimental": cel.NewCache(1000, cel.Features{
			EnableConsumableCapacity: true, EnableListTypeAttributes: true,
		}),
	}
	for questions.More() {
		var q question
		if err := questions.Decode(&q); err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		cache, known := caches[q.Allocator]
		if !known {
			return fmt.Errorf("no allocator is called %q", q.Allocator)
		}
		if err := answers.Encode(ask(q, cache)); err != nil {
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

// ask lets the reference allocate. What panics in it is reported as such.
func ask(q question, cache *cel.Cache) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{Outcome: "panic", Error: fmt.Sprint(r)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	known := classes{}
	for _, class := range q.Classes {
		known[class.Name] = class
	}
	structured.EnableAllocators(q.Allocator)
	allocator, err := structured.NewAllocator(ctx, q.Features, state(q), known, q.Slices, cache)
	if err != nil {
		return answer{Outcome: "other", Error: err.Error()}
	}
	allocations, err := allocator.Allocate(ctx, q.Node, q.Claims)
	if err != nil {
		return answer{Outcome: classOf(err), Error: err.Error()}
	}
	if len(allocations) != len(q.Claims) {
		return answer{Outcome: "none"}
	}
	return answer{Outcome: "allocated", Allocations: allocations}
}

// state gathers what is held, as the scheduler does from the claims.
func state(q question) structured.AllocatedState {
	s := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, d := range q.Allocated {
		s.AllocatedDevices.Insert(structured.MakeDeviceID(d.Driver, d.Pool, d.Device))
	}
	for _, d := range q.Shared {
		id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
		s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &d.ShareID))
		s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, d.Consumed))
	}
	return s
}

// classOf names what kind of error it is; texts are the only way to tell most of them apart.
func classOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return "node"
	}
	text := err.Error()
	for _, known := range []struct{ part, class string }{
		{"CEL runtime error", "cel"},
		{"CEL compile error", "cel"},
		{"is currently being updated", "allPools"},
		{"is currently invalid", "allPools"},
		{"a claim constraint would not be satisfied", "allConstraint"},
		{"exceeds the claim limit", "limit"},
		{"could not retrieve device class", "class"},
		{"unsupported count mode", "mode"},
	} {
		if strings.Contains(text, known.part) {
			return known.class
		}
	}
	return "other"
}

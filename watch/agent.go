package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"headroom/agent"
	"headroom/fail"
	"headroom/host"
	"headroom/queue"
)

// AgentOptions says what `headroom agent` does.
type AgentOptions struct {
	Dirs       host.Dirs
	Version    string
	To         string // address of the other Headroom
	CA         string // file of certificates to trust
	TokenFile  string // asked anew for each request
	Token      string // where there is no file
	QueueBytes int64  // 0: 512 MiB
	Servers    []string
	Host       string        // name of this machine; "": its own
	Every      time.Duration // for tests: how often the checks are put; 0: 5 minutes
	Say        func(string)
}

// agentQueue is what an agent keeps by default while the other is away: about
// two weeks of one machine.
const agentQueue = 512 << 20

// Agent collects and sends until the context ends, and returns nil then.
func Agent(ctx context.Context, o AgentOptions) error {
	if o.QueueBytes == 0 {
		o.QueueBytes = agentQueue
	}
	if o.Every == 0 {
		o.Every = inspectEvery
	}
	if o.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("tell this machine's name: %w", err)
		}
		o.Host = name
	}
	if err := agent.CheckURL(o.To); err != nil {
		return err
	}
	if _, err := o.token(); err != nil {
		return err
	}
	if err := checkServers(o.Servers); err != nil {
		return err
	}
	p := agentPlace(o.Dirs)
	release, err := p.hold()
	if err != nil {
		return err
	}
	defer release()
	defer thrift()()
	q, err := queue.Open(ctx, queue.Options{Dir: p.path("queue"), MaxBytes: o.QueueBytes, Note: o.Say})
	if err != nil {
		return err
	}
	parts, err := o.parts(p, q)
	if err != nil {
		return errors.Join(err, q.Close())
	}
	o.Say("sending what is read here to " + o.To)
	return o.run(ctx, q, parts)
}

// parts are what runs in an agent: collectors and checks, and what sends.
func (o AgentOptions) parts(p place, q queue.Queue) ([]part, error) {
	var runner *agent.Runner
	var tells *teller
	ship, err := agent.NewShipper(agent.ShipOptions{URL: o.To, CA: o.CA, Queue: q, Host: o.Host, Token: o.token,
		Look: func(l agent.Look) {
			runner.Look(time.Now().Add(time.Duration(min(max(l.Seconds, 0), 60)) * time.Second))
			tells.look(l)
		}})
	if err != nil {
		return nil, err
	}
	live, sendLive := shown(ship)
	runner = agent.New(agent.Options{
		Reader: host.Open(host.Options{}), Host: o.Host, Collectors: collectors(),
		Find: finder(o.Dirs, o.Servers), Sink: ship.Put, Live: live, Final: permanentPut, Keep: p.keeper,
	})
	checks := &checker{host: o.Host, version: o.Version, every: o.Every, targets: runner.Targets, say: o.Say}
	tells = newTeller(o.Host, o.Version, runner, checks, ship, o.Say)
	return []part{{"collectors", runner.Run}, {"checks", checks.run}, {"sending", ship.Run}, {"telling", tells.run}, {"sessions", tells.sessions}, {"live", sendLive},
		{"news", func(ctx context.Context) error { return tellShip(ctx, ship, o.Say) }},
		{"watchdog", func(ctx context.Context) error { return watchdog(ctx, func() bool { return true }) }}}, nil
}

func (o AgentOptions) run(ctx context.Context, q queue.Queue, parts []part) error {
	outer, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var ended sync.WaitGroup
	begin(outer, &ended, parts, stop)
	ready("sending to " + o.To)
	<-outer.Done()
	stopping()
	ended.Wait()
	err := context.Cause(outer)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, q.Close())
}

// token reads the token.
func (o AgentOptions) token() (string, error) {
	if o.TokenFile == "" {
		if o.Token == "" {
			return "", fail.With(fail.Hint(errors.New("send: no token given"), "make one over there with: headroom up token create NAME --scope write; then --token-file FILE or HEADROOM_TOKEN"), fail.Usage)
		}
		return o.Token, nil
	}
	b, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return "", fail.Hint(fmt.Errorf("read the token: %w", err), "--token-file names a file with what \"headroom up token create NAME --scope write\" printed over there")
	}
	words := strings.Fields(string(b))
	if len(words) != 1 {
		return "", fail.Hint(fmt.Errorf("read the token: %s holds %d words and not one token", o.TokenFile, len(words)),
			"put into it what \"headroom up token create NAME --scope write\" printed over there")
	}
	return words[0], nil
}

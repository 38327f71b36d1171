package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"headroom/fail"
	"headroom/host"
	"headroom/queue/letter"
	"headroom/report"
	"headroom/watch"
)

// upDead is what was set aside, and the way back.
func (a *app) upDead() *cobra.Command {
	var f upConfig
	c := &cobra.Command{
		Use:   "dead",
		Short: "List batches that the store refused and that were set aside, newest first",
		Long: `Lists the batches of samples that the store refused for good, with the reason,
the host that sent them and what they hold. They are kept, up to 64 MiB. When the
reason is gone (a right that was missing, a trigger, a disk), put them back with
"headroom up dead retry". Asks the running "headroom up", or looks into its queue
where none runs; --nats is needed only then.`,
		Example: "  headroom up dead\n  headroom up dead -o json\n  headroom up dead retry --all",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDead(c, f, func(ctx context.Context, d *watch.Dead) error {
				all, err := d.All(ctx)
				if err != nil {
					return err
				}
				return a.print("Headroom: set aside", report.Dead(all))
			})
		},
	}
	fl := c.PersistentFlags()
	fl.StringVar(&f.NATS, "nats", "", "URL of the NATS cluster, if headroom up queues there and does not run")
	fl.StringVar(&f.NATSCreds, "nats-creds", "", "credentials file for --nats")
	a.outputFlag(c)
	retry := a.upDeadEach(&f, "retry", "put back into the queue", (*watch.Dead).Retry)
	retry.Short = "Put batches that were set aside back into the queue"
	retry.Long = `Puts batches that were set aside back into the queue, the oldest first with --all.
Each leaves the list only when it is on disk in the queue. Nothing is stored
twice: the store skips a batch that it has, by the batch's ID. One that is refused
again is set aside again.`
	drop := a.upDeadEach(&f, "drop", "dropped", (*watch.Dead).Drop)
	drop.Short = "Remove batches that were set aside, for good"
	drop.Long = "Removes batches that were set aside. Their samples are lost; there is no way back."
	c.AddCommand(retry, drop)
	return c
}

// upDeadEach is a verb for letters by ID, or all.
func (a *app) upDeadEach(f *upConfig, verb, done string, do func(*watch.Dead, context.Context, []string) (letter.Outcome, error)) *cobra.Command {
	var every bool
	c := &cobra.Command{
		Use:     verb + " ID… | --all",
		Example: "  headroom up dead " + verb + " 1795269600123-42\n  headroom up dead " + verb + " --all",
		RunE: func(c *cobra.Command, ids []string) error {
			if every == (len(ids) > 0) {
				return fail.With(fail.Hint(errors.New("want IDs, or --all"), "headroom up dead lists them"), fail.Usage)
			}
			return a.withDead(c, *f, func(ctx context.Context, d *watch.Dead) error {
				if every {
					all, err := d.All(ctx)
					if err != nil {
						return err
					}
					for _, l := range slices.Backward(all) {
						ids = append(ids, l.ID)
					}
				}
				out, err := do(d, ctx, ids)
				fmt.Fprintf(a.out, "%d %s\n", out.Done, done)
				for _, x := range out.Failed {
					fmt.Fprintln(a.err, x.Why)
				}
				if err == nil && len(out.Failed) > 0 {
					err = fail.Hint(fmt.Errorf("%d of %d stayed as they were", len(out.Failed), len(ids)), "headroom up dead lists those there are")
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&every, "all", false, "all that are set aside now")
	return c
}

// withDead opens what was set aside for the time of a work.
func (a *app) withDead(c *cobra.Command, f upConfig, work func(context.Context, *watch.Dead) error) error {
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	f = f.over(c, a.config.Up)
	size, err := queueBytes(f.Queue)
	if err != nil {
		return err
	}
	d, err := watch.OpenDead(c.Context(), watch.Options{Dirs: dirs, NATS: f.NATS, NATSCreds: f.NATSCreds, QueueBytes: size, Say: a.say})
	if err != nil {
		return err
	}
	return errors.Join(work(c.Context(), d), d.Close())
}

// upHost is the hosts that send.
func (a *app) upHost() *cobra.Command {
	c := &cobra.Command{
		Use:     "host",
		Short:   "Say of a host that was taken away that it is not missed",
		Example: "  headroom up host forget web7",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "forget NAME",
		Short: "Have a silent host missed no more; its samples stay",
		Long: `Has the running "headroom up" miss a silent host no more: it is not listed and
not called silent until it speaks again. Its samples and findings stay in the
store. A host that speaks is not forgotten: stop its agent first, or revoke its
token.`,
		Example: "  headroom up host forget web7",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dirs, err := host.OwnDirs()
			if err != nil {
				return err
			}
			return watch.ForgetHost(c.Context(), dirs, args[0])
		},
	})
	return c
}

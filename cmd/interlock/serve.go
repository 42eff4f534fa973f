package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"interlock/internal/config"
	"interlock/internal/gateway"
)

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			log := newLogger(cfg, os.Stderr)
			g, err := gateway.Start(cmd.Context(), cfg, version, log)
			if err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done():
				log.Info().Msg("stopping")
			case err = <-g.Failed():
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), cfg.Limits.ShutdownTimeout)
			defer cancel()
			return errors.Join(err, g.Shutdown(ctx))
		},
	}
}

func newLogger(cfg *config.Config, w io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.Log.Level)
	if err != nil || cfg.Log.Level == "" {
		level = zerolog.InfoLevel
	}
	if cfg.Log.Format == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.RFC3339}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

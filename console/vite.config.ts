import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The hub serves the built files below /console, from the package data of `api`.
export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    outDir: "../fleet/console/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});

import "@mantine/core/styles/baseline.css";
import "@mantine/core/styles/default-css-variables.css";
import "@mantine/core/styles/global.css";
import "@mantine/core/styles/UnstyledButton.css";
import "@mantine/core/styles/Button.css";
import "@mantine/core/styles/Input.css";
import "@mantine/core/styles/Alert.css";
import "@mantine/core/styles/Skeleton.css";
import "@mantine/core/styles/Tabs.css";
import "./console.css";
import { createTheme, MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createBrowserRouter, RouterProvider } from "react-router";
import { Refusal } from "./api";
import { Frame } from "./frame";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // A refusal stays one. A hub that does not answer is asked again until it does.
      retry: (failures, error) => (error instanceof Refusal && error.code === 0) || failures < 1,
      retryDelay: 2_000,
    },
  },
});

const router = createBrowserRouter(
  [
    {
      Component: Frame,
      HydrateFallback: () => null,
      children: [
        { index: true, lazy: async () => ({ Component: (await import("./pages/fleet")).FleetPage }) },
        { path: "queues", lazy: async () => ({ Component: (await import("./pages/queues")).QueuesPage }) },
        { path: "jobs", lazy: async () => ({ Component: (await import("./pages/jobs")).JobsPage }) },
        {
          path: "jobs/:namespace/:kind/:name",
          lazy: async () => ({ Component: (await import("./pages/job")).JobPage }),
        },
        { path: "members", lazy: async () => ({ Component: (await import("./pages/members")).MembersPage }) },
        { path: "decisions", lazy: async () => ({ Component: (await import("./pages/decisions")).DecisionsPage }) },
        { path: "decisions/:id", lazy: async () => ({ Component: (await import("./pages/decision")).DecisionPage }) },
        { path: "usage", lazy: async () => ({ Component: (await import("./pages/usage")).UsagePage }) },
        { path: "what-if", lazy: async () => ({ Component: (await import("./pages/whatif")).WhatIfPage }) },
        { path: "settings/:part?", lazy: async () => ({ Component: (await import("./pages/settings")).SettingsPage }) },
        { path: "*", lazy: async () => ({ Component: (await import("./pages/missing")).MissingPage }) },
      ],
    },
  ],
  { basename: "/console" },
);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element #root");
createRoot(root).render(
  <StrictMode>
    {/* The variables are those of the style sheet: a style element would need an exception in the CSP. */}
    <MantineProvider
      theme={createTheme({})}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);

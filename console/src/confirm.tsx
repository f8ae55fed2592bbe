/** A button that asks before it acts. */

import { Button } from "@mantine/core";
import { type ReactNode, useId, useRef } from "react";

interface Props {
  label: string;
  title: string;
  /** What comes of it. */
  children: ReactNode;
  act: () => void;
  disabled: boolean;
  /** The label of the button in the dialog, where it is another one. */
  yes?: string;
  no?: string;
  danger?: boolean;
  small?: boolean;
}

export function Confirm({ label, title, children, act, disabled, yes, no = "Leave it", danger, small }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  return (
    <>
      <Button
        variant="default"
        size={small ? "compact-sm" : undefined}
        className={danger ? "danger" : undefined}
        disabled={disabled}
        onClick={() => dialog.current?.showModal()}
      >
        {label}
      </Button>
      <dialog ref={dialog} aria-labelledby={id}>
        <h2 id={id}>{title}</h2>
        {children}
        <form method="dialog" className="buttons">
          <Button type="submit" variant="default">
            {no}
          </Button>
          <Button type="submit" className={danger ? "danger" : undefined} variant="default" onClick={act}>
            {yes ?? label}
          </Button>
        </form>
      </dialog>
    </>
  );
}
